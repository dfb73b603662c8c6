"""M002: a negative length prefix."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import FramingLost
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.frame_alignment import FRAME_KINDS, MIN_SIZES, NEGATIVE, WRITERS, FrameAlignment
from dissectors.trackers.state import ConnectionState
from dissectors.wire.limits import MAX_FRAME_BYTES


@rule("M002", severity=Severity.ERROR, events=(FramingLost,), needs=(FrameAlignment,), since="0.1")
def negative_frame(event: FramingLost, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the length prefix of a frame is not negative.

    ## Why it matters
    A broker closes the connection with "Invalid receive (size = -2)"; other readers take the length as unsigned and
    report a frame of 4 GB.

    ## Usual cause
    Extra bytes were written between two frames, or a length was computed wrongly or in too few bits. These bytes were
    not meant as a length.

    ## Example
    ```hex request
    ff ff ff fe 00 12 00 00    # a length of -2
    ```

    ## Look-alikes
    ```hex request
    00 00 00 0a              # length
    00 12 00 00              # api_key 18 (ApiVersions), api_version 0
    ff ff ff fe              # correlation_id -2 may be negative
    ff ff                    # client_id null
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_common
    https://github.com/streamnative/kop/issues/1527
    """
    if connection.state(FrameAlignment).classify(event, midstream=connection.midstream) == NEGATIVE:
        assert event.size is not None
        yield Problem(
            f"the length prefix of a {FRAME_KINDS[event.direction]} is negative: {event.size}",
            hint=f"find what wrote these four bytes here (as unsigned {event.size + (1 << 32)}): "
            "too much was written before them, or the length was computed wrong",
            blame=WRITERS[event.direction],
            expected=f"{MIN_SIZES[event.direction]} to {MAX_FRAME_BYTES}",
            got=str(event.size),
            cause=FRAME_KINDS[event.direction],
        )
