"""K001: bytes that are missing from the capture."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import INSPECTOR_WAS_BEHIND, INSPECTOR_WAS_RESTARTED, BytesSkipped
from dissectors.connections.framing import MIDSTREAM
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState

_KINDS = ("requests", "responses")


@rule("K001", severity=Severity.INFO, events=(BytesSkipped,), since="0.1")
def capture_gap(event: BytesSkipped, connection: ConnectionState) -> Iterator[Problem]:
    """Reports, once per connection, that bytes are missing from the capture.

    ## Why it matters
    Their content is not in the trace. This is not a fault of client or broker: kproxy resumes at the next frame, and
    does not report responses or requests whose counterpart may be among the missing bytes.

    ## Usual cause
    The capture was taken on a busy machine, with a small buffer or snap length, or on only one of several network
    paths.

    ## Example
    ```story
    > ApiVersions v0
    lose < 1460
    ```

    ## Look-alikes
    ```story
    open 1 client=10.0.0.9:50000 server=10.0.0.1:9092 midstream
    > hex 00 00 00                 # the end of a frame that began before the capture: K002
    > ApiVersions v0
    > ApiVersions v0
    ```

    ## Sources
    https://github.com/kubeshark/kubeshark/issues/1746
    """
    if event.reason not in (INSPECTOR_WAS_BEHIND, MIDSTREAM, INSPECTOR_WAS_RESTARTED):
        yield Problem(
            f"{event.size} bytes of the {_KINDS[event.direction]} are missing ({event.reason}); this is a gap "
            "in the capture, "
            "not a fault of client or broker",
            hint="capture with a larger buffer (tcpdump -B 65536) and whole packets (-s 0)",
            cause=connection.connection_id,
        )
