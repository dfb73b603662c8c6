"""S028: a fetch session opened with every Fetch, and none used."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.fetches import Fetches, opens_session
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_TIMES = 5


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
    """Checks that a client uses the fetch session that it was given, or asks for none.

    ## Why it matters
    `session_id` 0 with `session_epoch` 0 asks the broker for a new session each time. Its cache is small (1000 by
    default): sessions that nobody uses push out those of clients that do, which then are told
    FETCH_SESSION_ID_NOT_FOUND and start over.

    ## Usual cause
    A client that took up Fetch v7 and left both fields at 0. Without sessions `session_epoch` is -1 (KIP-227).

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

    ## Looks alike
    A client without sessions, and one whose broker has no room for another:
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
    times = connection.state(Fetches).granted
    if not times or times % _TIMES or not opens_session(event.message.body):
        return
    yield Problem(
        f"the client asks for a new fetch session with every Fetch: {times} were given on this connection "
        "and none was used; session_epoch should be -1, or that of the session it was given",
        **locate(event.message, "session_epoch"),
        hint="update the client: each of these sessions takes a place in the broker's cache",
        expected="-1",
        got="0",
    )
