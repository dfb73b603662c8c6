"""K005: the inspector could not keep up and skipped frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dissectors.connections.events import (
    INSPECTOR_WAS_BEHIND,
    BytesSkipped,
    ConnectionEnded,
    RequestReceived,
    ResponseReceived,
)
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@dataclass(slots=True)
class _MissedFrames:
    frames: int = 0
    bytes: int = 0


@rule(
    "K005",
    severity=Severity.INFO,
    events=(RequestReceived, ResponseReceived, BytesSkipped, ConnectionEnded),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def decoder_lag(
    event: RequestReceived | ResponseReceived | BytesSkipped | ConnectionEnded, connection: ConnectionState
) -> Iterator[Problem]:
    """Reports that the inspector could not keep up and skipped frames of a connection, with the final count.

    ## Why it matters
    Traffic was not affected: the relay never waits for the inspector. But the skipped frames were not checked, so the
    absence of findings means less.

    ## Usual cause
    More traffic than one core can decode, a costly level of detail (``--detail full``), or a slow disk.

    ## Example
    ```story
    > ApiVersions v0
    lose < 2000 frames=3 behind
    close
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0
    lose < 2000 frames=3           # not in the capture: K001
    ```

    ## Sources
    https://github.com/kubeshark/kubeshark/issues/1746
    """
    if isinstance(event, ConnectionEnded):
        missed = connection.state(_MissedFrames)
        if missed.frames > 1:
            yield Problem(
                f"kproxy could not keep up and skipped {missed.frames} frames ({missed.bytes} bytes) of this "
                "connection",
                cause=connection.connection_id,
            )
    elif (event.reason if isinstance(event, BytesSkipped) else event.damaged) == INSPECTOR_WAS_BEHIND:
        missed = connection.state(_MissedFrames)
        if missed.frames == 0:
            yield Problem(
                "kproxy cannot keep up and skips frames of this connection; the traffic itself is not delayed",
                hint="inspect fewer connections (--sample 10%), reduce --detail, or pass --strict-trace to keep all",
                cause=connection.connection_id,
            )
        missed.frames += event.frames if isinstance(event, BytesSkipped) else 1
        missed.bytes += event.size
