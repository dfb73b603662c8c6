"""S029: fetch sessions that the broker refuses repeatedly."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas import error_name
from dissectors.schemas.codes import Error
from dissectors.trackers.recurrence import SECOND, Recurrence
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_SESSION_ERRORS = (Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH)
_CLIENT_THRESHOLD = 3
_THRESHOLD = 5


class _Refusals(Recurrence):
    """Refusals of a connection's fetch sessions, in total and per session id. Brokers keep sessions for 2 minutes."""

    within = 60 * SECOND


@rule(
    "S029",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.REFUSED,
    since="0.1",
    blame="network",
)
def fetch_session_loop(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a refused fetch session is reopened and then stays valid.

    ## Why it matters
    Each refusal is a fetch without records. A session that is refused every time makes consumers very slow.

    ## Usual cause
    A client that keeps using the session instead of starting over with `session_epoch` 0, or several brokers behind
    one address (a load balancer), where the next request reaches a broker that does not know the session.

    ## Example
    ```story
    > Fetch v7 {"session_id": 9, "session_epoch": 4}
    < {"error_code": 71}
    > Fetch v7 {"session_id": 9, "session_epoch": 5}
    < {"error_code": 71}
    > Fetch v7 {"session_id": 9, "session_epoch": 6}
    < {"error_code": 71}
    ```

    ## Look-alikes
    The broker has evicted the session, and the client opens another:
    ```story
    > Fetch v7 {"session_id": 9, "session_epoch": 4}
    < {"error_code": 70}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 10}
    > Fetch v7 {"session_id": 10, "session_epoch": 1}
    < {"session_id": 10}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-227%3A+Introduce+Incremental+FetchRequests+to+Increase+Partition+Scalability
    https://github.com/redpanda-data/redpanda/issues/27749
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None:
        return
    refusals = connection.state(_Refusals)
    if (code := message.body.get("error_code")) not in _SESSION_ERRORS:
        if request_body.get("session_epoch") == 0:
            refusals.forget(message.body.get("session_id"))
        return
    connection.run.subscribe("S029")
    error = error_name(code)
    location = locate(message, "error_code")
    times = refusals.count("all", event.at)
    if (
        request_body.get("session_epoch", 0) > 0
        and refusals.count(request_body.get("session_id"), event.at) >= _CLIENT_THRESHOLD
    ):
        yield Problem(
            f"the client keeps using fetch session {request_body.get('session_id')} although the broker answers "
            f"{error} each time; it should start over with session_epoch 0",
            **location,
            hint="update the client, or disable its fetch sessions",
            blame="client",
            cause="client",
        )
    elif times >= _THRESHOLD:
        yield Problem(
            f"the broker answered {error} to {times} fetch sessions of this connection within a minute; sessions "
            "should last at least two minutes",
            **location,
            hint="check whether one address leads to several brokers (a load balancer), or whether the "
            "broker's cache is too "
            "small (max.incremental.fetch.session.cache.slots)",
        )
