"""C009: correlation ids that restart in the middle of a connection."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: A restart is an id of at most `MAX_RESTART_ID` after an id of at least `MIN_PREVIOUS_ID`.
MAX_RESTART_ID = 10
MIN_PREVIOUS_ID = 1000

#: Above this, ids are about to wrap around; the Java client also uses the highest ones for SASL.
WRAP_THRESHOLD = 2**31 - 1_000_000


@rule(
    "C009",
    severity=Severity.INFO,
    events=(RequestReceived,),
    only=FrameFlags.UNPAIRED,
    needs=(InFlight,),
    since="0.1",
    blame="client",
)
def corr_id_restart(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports that the increasing correlation ids of a connection restart in the middle of it.

    ## Why it matters
    The protocol allows this, but it suggests more than one client. Everything that applies per connection
    (authentication, quota, client name and version) is then mixed up, and ids may clash while requests are in flight
    (C008).

    ## Usual cause
    A proxy or pool that multiplexes several clients on one connection, or a capture that lacks the first packets of a
    new connection on reused ports.

    ## Example
    ```story
    > #5000 Metadata v8 {"topics": []}
    < {}
    > #0 Metadata v8 {"topics": []}
    < {}
    ```

    ## Look-alikes
    The Java client numbers requests when it creates them, not when it sends them; it uses the highest ids for SASL;
    after the highest id comes 0:
    ```story
    > #7 Metadata v8 {"topics": []}
    < {}
    > #3 Metadata v8 {"topics": []}
    < {}
    > #2147483647 Metadata v8 {"topics": []}
    < {}
    > #0 Metadata v8 {"topics": []}
    < {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    """
    previous_id, correlation_id = connection.state(InFlight).previous_id, event.message.correlation_id
    if 0 <= correlation_id <= MAX_RESTART_ID and MIN_PREVIOUS_ID <= previous_id < WRAP_THRESHOLD:
        yield Problem(
            f"correlation ids restart at {correlation_id} after {previous_id}: more than one client seems to use this "
            "connection",
            8,
            12,
            "header.correlation_id",
        )
