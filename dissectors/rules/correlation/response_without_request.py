"""C001: a response without a request in flight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.in_flight import ANSWERS_NOTHING, InFlight, request_text
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

_MAX_ABANDONED = 10_000

#: Responses to requests of connections that ended longer ago (ns) are not expected.
_MAX_AGE = 120 * SECOND


class _Abandoned(NamedTuple):
    """A request without a response when its connection ended at `at` (ns)."""

    request: str
    connection_id: str
    at: int


class _AbandonedRequests(BoundedDict[tuple[str, str, int], _Abandoned]):
    """Requests of ended connections, by client (host and port), server and correlation id."""

    def __init__(self) -> None:
        super().__init__(_MAX_ABANDONED)


@rule(
    "C001",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    broken=True,
    only=FrameFlags.UNPAIRED,
    also=(Trigger((ConnectionEnded,)),),
    needs=(InFlight,),
    since="0.1",
    blame="broker",
)
def response_without_request(
    event: ResponseReceived | ConnectionEnded, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that every response answers a request in flight on its connection.

    ## Why it matters
    Clients match responses by correlation id alone. For an unknown id, they fail, close the connection, or wait for
    the right one until the request times out.

    ## Usual cause
    The server does not copy the request's id: it uses its own counter, or a template with a fixed id. Or a header field
    is missing or duplicated, so the id is read two or four bytes off. Reported once per server; the requests that were
    probably meant are not reported as unanswered as well. If the id is that of a request on the client's previous
    connection from the same port, the server has taken the new connection for that one.

    ## Example
    ```story
    > Metadata v8 {"topics": []}
    < #1001 as Metadata v8 {}
    ```
    ```hex response
    00 00 00 06              # length
    00 00 00 07              # correlation_id 7: nothing with that id was asked
    00 00                    # error_code
    ```
    ```story
    open 1 client=10.0.0.9:50000 server=10.0.0.1:9092
    1> #9 Produce v7 {"acks": -1, "topic_data": []}
    1 close by=client how=reset
    open 2 client=10.0.0.9:50000 server=10.0.0.1:9092
    2> #1 Metadata v8 {"topics": []}
    2< #9 as Produce v7 {}
    ```

    ## Look-alikes
    A capture that begins late lacks the request. A response that overtakes another is C002, a second response C003, and
    the response to a Produce with acks=0 C005:
    ```story
    open 1 midstream
    < #1001 as Metadata v8 {}
    ```
    ```story
    > Produce v7 {"acks": 0, "topic_data": []}
    < #1 as Produce v7 {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    https://github.com/apache/kafka/pull/7251
    https://issues.apache.org/jira/browse/KAFKA-5595
    """
    in_flight, abandoned_requests = connection.state(InFlight), connection.run.state(_AbandonedRequests)
    addresses = connection.client, connection.server
    if isinstance(event, ConnectionEnded):
        for request in in_flight.waiting.values():
            abandoned_requests[*addresses, request.message.correlation_id] = _Abandoned(
                request_text(request), connection.connection_id, event.at
            )
        return
    if event.request is not None or event.damaged:
        return
    kind, oldest = in_flight.stray or ("", None)
    if kind != ANSWERS_NOTHING:
        return
    correlation_id = event.correlation_id
    text, expected = f"no request in flight has correlation id {correlation_id}", None
    hint = "copy the request's correlation id unchanged into the response, as the first field of its header"
    abandoned = abandoned_requests.get((*addresses, correlation_id))
    if abandoned is not None and event.at - abandoned.at < _MAX_AGE:
        text += (
            f"; it probably answers {abandoned.request} of connection {abandoned.connection_id}, which the client had"
            f" opened from the same port and which ended {duration(event.at - abandoned.at)} before"
        )
        hint = "fix the server: drop the responses of a connection that has ended; addresses and ports are used again"
    elif oldest is not None:
        oldest_message = oldest.message
        expected = str(oldest_message.correlation_id)
        text += (
            f"; it probably answers the oldest, {oldest_message.api} v{oldest_message.version}, which has {expected}:"
            f" the id is off by {correlation_id - oldest_message.correlation_id:+}"
        )
    yield Problem(
        text,
        4,
        8,
        "header.correlation_id",
        hint=hint,
        expected=expected,
        got=str(correlation_id),
    )
