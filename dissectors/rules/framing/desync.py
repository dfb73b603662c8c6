"""M004: frame boundaries are lost."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import FramingLost
from dissectors.findings import Problem, Severity
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.trackers.frame_alignment import FRAME_KINDS, MIN_SIZES, OUT_OF_STEP, WRITERS, FrameAlignment
from dissectors.trackers.state import ConnectionState
from dissectors.wire.limits import MAX_FRAME_BYTES


@rule("M004", severity=Severity.ERROR, events=(FramingLost,), needs=(FrameAlignment,), since="0.1")
def desync(event: FramingLost, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that each frame begins where the previous one ends.

    ## Why it matters
    Nothing after this point can be read, because each frame's start follows from the length of the previous one.
    kproxy stops decoding this direction instead of reporting requests that were never made.

    ## Usual cause
    The previous frame was malformed too: its length prefix is wrong, or bytes were written twice. If that frame is
    complete with some of the next bytes, the finding says by how much its prefix is too small. After a gap in a
    capture, kproxy may have taken payload for a frame; then this is info.

    ## Example
    ```hex request
    00 00 00 08              # length: two too few
    00 12 00 00              # api_key 18 (ApiVersions), api_version 0
    00 00 00 2a              # correlation_id 42
    ff ff                    # client_id null: read as the next length, with what follows
    00 00 00 0a 00 12 00 00 00 00 00 2b ff ff
    ```

    ## Look-alikes
    ```hex request
    00 00 00 0a              # length
    00 12 00 00              # api_key 18 (ApiVersions), api_version 0
    00 00 00 2a              # correlation_id 42
    ff ff                    # client_id null
    00 00 00 0a 00 12 00 00 00 00 00 2b ff ff
    ```
    ```story
    > ApiVersions v0
    > hex ff ff ff fe 00 12 00 00    # the bytes before it decode: M002
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_common
    """
    alignment = connection.state(FrameAlignment)
    if alignment.classify(event, midstream=connection.midstream) != OUT_OF_STEP:
        return
    kind = FRAME_KINDS[event.direction]
    if completed_frame := alignment.frame_with_next_bytes(event):
        message, missing = completed_frame
        size = len(message.frame) - 4
        yield Problem(
            f"the length prefix of {message.api} v{message.version} is {missing} too small: with the next "
            f"{count_text(missing, 'byte')}, the {kind} is complete",
            hint="the length prefix is the number of all bytes after it, with the header",
            blame=WRITERS[event.direction],
            expected=str(size),
            got=str(size - missing),
            cause=f"{message.api} v{message.version} {kind}",
        )
    elif alignment.follows_misread(event):
        yield Problem(
            f"no {kind} begins here: its length prefix would be {event.size} bytes; "
            f"the {kind} before it was malformed too",
            hint=f"check the {kind} before this one: its length prefix is wrong, or bytes were written twice",
            blame=WRITERS[event.direction],
            expected=f"{MIN_SIZES[event.direction]} to {MAX_FRAME_BYTES}",
            got=str(event.size),
            cause=kind,
        )
    else:
        yield Problem(
            f"kproxy lost track of the {kind} boundaries: earlier bytes are missing, and no frame begins here",
            hint="nothing more is decoded in this direction; capture the connection from its start",
            severity=Severity.INFO,
            cause=kind,
        )
