"""K002: a connection that was opened before kproxy observed it."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import BytesSkipped, ResponseReceived
from dissectors.connections.framing import MIDSTREAM
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "K002",
    severity=Severity.INFO,
    events=(ResponseReceived, BytesSkipped),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def started_mid_stream(event: ResponseReceived | BytesSkipped, connection: ConnectionState) -> Iterator[Problem]:
    """Reports that part of a connection cannot be decoded because it was open before kproxy saw it.

    ## Why it matters
    A response cannot be decoded without its request, and the start of the connection is unknown: the broker's
    versions, the client's software, and who logged in. Rules that need these stay silent.

    ## Usual cause
    The capture was started while the client was running.

    ## Example
    ```story
    open 1 client=10.0.0.9:50000 server=10.0.0.1:9092 midstream
    > hex 00 05 68 65 6c 6c 6f     # the end of a request that began earlier
    > ApiVersions v0
    ```

    ## Look-alikes
    Nothing was missed: the client was idle when the capture began.
    ```story
    open 1 client=10.0.0.9:50000 server=10.0.0.1:9092 midstream
    > ApiVersions v0
    < {"api_keys": [{"api_key": 18}]}
    ```

    ## Sources
    https://www.wireshark.org/docs/dfref/k/kafka.html
    """
    if not connection.midstream or connection.resumed:  # a gap line says what a restarted inspector has not seen
        return
    if event.reason == MIDSTREAM if isinstance(event, BytesSkipped) else event.message is None:
        yield Problem(
            "this connection was open before kproxy saw it, so its first frames cannot be decoded, "
            "and what was negotiated is unknown",
            hint="start the capture before the client, or make the client reconnect",
            cause=connection.connection_id,
        )
