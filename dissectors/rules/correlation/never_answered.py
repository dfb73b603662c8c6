"""C004: requests that get no response."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ConnectionEnded, DeadlinePassed, RequestReceived
from dissectors.findings import ConcernedRequest, Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import LONG_POLLS, allowed_ms, duration
from dissectors.trackers.connection_endings import LEFT_OPEN, ConnectionEndings
from dissectors.trackers.connections_by_client import ConnectionsByClient
from dissectors.trackers.in_flight import OVERDUE_OTHER, OVERTAKEN_DEADLINE, InFlight, request_text, requests_text
from dissectors.trackers.rebalance_timeouts import RebalanceTimeouts
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger
from dissectors.trackers.waits import explain_wait

_MS = 1_000_000

#: A request that had waited for less than this (ns) when its connection ended is not reported.
MIN_WAIT = 1_000 * _MS

#: A client that disconnects after waiting this much longer than allowed (ns) has timed out.
CLIENT_TIMEOUT = 5_000 * _MS

_UNKNOWN_REASON_HINT = (
    "find out why the server does not answer: its log at that time, and what is between it and the client"
)


@rule(
    "C004",
    severity=Severity.ERROR,
    events=(ConnectionEnded, DeadlinePassed),
    deadline=OVERDUE_OTHER,
    also=(Trigger((DeadlinePassed,), deadline=OVERTAKEN_DEADLINE),),
    needs=(ConnectionsByClient, ConnectionEndings, InFlight, RebalanceTimeouts),
    since="0.1",
)
def never_answered(event: ConnectionEnded | DeadlinePassed, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a request on an open connection is answered within 30 s beyond the time that it allows.

    ## Why it matters
    A client without a response hangs until its request times out (usually 30 s), and so does everything it sends on
    the connection meanwhile. Then it closes the connection and retries.

    ## Usual cause
    A server that drops errors instead of answering them, or that does not answer a request without topics. The allowed
    time includes max_wait_ms of a Fetch, the rebalance timeout of a group, timeout_ms of admin requests, and the
    allowed time of older requests on the connection.

    If the server answers newer requests of the connection, but not this one for another second, it was skipped: Kafka
    answers in order.

    If the client closes the connection earlier, or the capture ends, this is info, or a warning if the client had
    waited more than 5 s; nothing is reported if it had waited less than 1 s. C013 covers connections closed by the
    server.

    The finding says what the broker did last: on this connection, and on the client's other connections.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < {}
    > ListGroups v2 {}
    +31s
    ```

    A Heartbeat that the server skips:
    ```story
    > Heartbeat v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}
    > OffsetFetch v5 {"group_id": "g", "topics": []}
    < #2 {}
    +2s
    ```

    ## Look-alikes
    Responses in another order (C002):
    ```story
    > Metadata v8 {"topics": []}
    > ListGroups v2 {}
    < #2 {}
    < {}
    +2s
    ```
    A client that leaves before a response can be expected:
    ```story
    > Metadata v8 {"topics": []}
    +500ms
    close by=client how=fin
    ```
    A Fetch may take max_wait_ms, a JoinGroup until the slowest member has joined; a consumer may be stopped while it
    waits for a Fetch:
    ```story
    > Fetch v11 {"max_wait_ms": 60000, "topics": []}
    +80s
    < {}
    > Fetch v11 {"max_wait_ms": 60000, "topics": []}
    +2s
    close by=client how=fin
    ```
    ```story
    > JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}
    +70s
    < {"error_code": 25}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_request.timeout.ms
    https://github.com/seaweedfs/seaweedfs/pull/8762
    https://github.com/streamnative/kop/issues/1059
    """
    if isinstance(event, DeadlinePassed) and event.code == OVERTAKEN_DEADLINE:
        yield from _skipped_problems(event, connection)
        return
    if isinstance(event, DeadlinePassed):
        late_requests = connection.state(InFlight).take_overdue(OVERDUE_OTHER, event.at, connection)
        if late_requests:
            wait = explain_wait(late_requests[0], event.at, connection)
            yield Problem(
                f"no answer to {requests_text(late_requests)} after {duration(event.at - late_requests[0].at)}: "
                f"{wait.text}",
                blame="broker",
                hint="answer every request, even with an error: clients wait until they time out and reconnect",
                cause=_request_text(late_requests[0]),
                request=ConcernedRequest.of(late_requests[0]),
            )
        return
    endings = connection.run.state(ConnectionEndings)
    if endings.cause != LEFT_OPEN:
        return
    timeouts = connection.run.state(RebalanceTimeouts)
    overtaken = connection.state(InFlight).overtaken
    for request in endings.unanswered:
        waited, allowed = event.at - request.at, allowed_ms(request.message, timeouts) * _MS
        overtaking = overtaken.get(request.message.correlation_id)
        if overtaking is None and waited < (MIN_WAIT + allowed if request.message.api in LONG_POLLS else MIN_WAIT):
            continue
        timed_out = event.by == "client" and waited > allowed + CLIENT_TIMEOUT
        ending_text = "the client closed its connection"
        if event.by is None:
            ending_text = "its connection was last seen" + (f" ({event.how})" if event.how else "")
        text = f"no answer to {request_text(request)}, which had waited {duration(waited)} when {ending_text}"
        if overtaking is None:
            yield Problem(
                text,
                severity=Severity.WARNING if timed_out else Severity.INFO,
                blame="broker" if timed_out else None,
                hint=_UNKNOWN_REASON_HINT if timed_out else None,
                cause=f"{_request_text(request)} {timed_out}",
                request=ConcernedRequest.of(request),
            )
        else:
            yield Problem(
                f"{text}, although the server had answered the newer {request_text(overtaking.newer)}",
                blame="broker",
                hint="the server must answer every request of a connection, in order; check why it skipped this one",
                cause=_request_text(request),
                request=ConcernedRequest.of(request),
            )
        return


def _skipped_problems(event: DeadlinePassed, connection: ConnectionState) -> Iterator[Problem]:
    """Report requests that the server did not answer although it answered newer ones."""
    for request, overtaking in connection.state(InFlight).take_skipped(event.at, connection):
        yield Problem(
            f"no answer to {request_text(request)}: the server answered the newer {request_text(overtaking.newer)} "
            f"{duration(event.at - overtaking.at)} ago",
            blame="broker",
            hint=f"find out why the server drops its response to {request.message.api} (its log, or a proxy between): "
            "it must answer every request, even with an error; until then the client waits",
            cause=_request_text(request),
            request=ConcernedRequest.of(request),
        )


def _request_text(request: RequestReceived) -> str:
    return f"{request.message.api} v{request.message.version}"
