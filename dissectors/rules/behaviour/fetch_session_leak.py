"""S028: a client that opens a fetch session with every Fetch and uses none."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.fetch_facts import opens_session
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_INTERVAL = 5


@rule(
    "S028",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(Fetches,),
    since="0.1",
    blame="client",
)
def fetch_session_leak(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client uses the fetch sessions that it opens, or opens none.

    ## Why it matters
    `session_id` 0 with `session_epoch` 0 requests a new session each time. The broker's cache is small (1000 by
    default): unused sessions evict those of other clients, which then get FETCH_SESSION_ID_NOT_FOUND and start over.

    ## Usual cause
    A client that adopted Fetch v7 and left both fields at 0. Without sessions, `session_epoch` is -1 (KIP-227).

    ## Example
    ```story
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 11}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 12}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 13}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 14}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 15}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    ```

    ## Look-alikes
    A client without sessions, and one whose broker has no room for another session:
    ```story
    > Fetch v7 {"session_id": 0, "session_epoch": -1}
    < {"session_id": 0}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 0}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 0}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 0}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 0}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    < {"session_id": 0}
    > Fetch v7 {"session_id": 0, "session_epoch": 0}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-227%3A+Introduce+Incremental+FetchRequests+to+Increase+Partition+Scalability
    https://github.com/IBM/sarama/issues/1644
    https://github.com/platformatic/kafka/issues/315
    """
    times = connection.state(Fetches).unused_sessions
    if not times or times % _INTERVAL or not opens_session(event.message.body):
        return
    yield Problem(
        f"the client opens a new fetch session with every Fetch: {times} were opened on this connection "
        "and none was used; session_epoch should be -1, or continue the session",
        **locate(event.message, "session_epoch"),
        hint="update the client: each of these sessions takes a slot in the broker's cache",
        expected="-1",
        got="0",
    )
