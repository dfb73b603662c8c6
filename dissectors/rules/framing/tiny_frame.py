"""M003: a length prefix too small for a header."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import FramingLost
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.frame_alignment import FRAME_KINDS, MIN_SIZES, TINY, WRITERS, FrameAlignment
from dissectors.trackers.state import ConnectionState


@rule("M003", severity=Severity.ERROR, events=(FramingLost,), needs=(FrameAlignment,), since="0.1")
def tiny_frame(event: FramingLost, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a frame is long enough for its header: 8 bytes for a request, 4 for a response.

    ## Why it matters
    An API key, version and correlation id do not fit, so the receiver closes the connection.

    ## Usual cause
    An empty frame as a keep-alive, which Kafka does not have; zeros after a frame longer than its length prefix; or a
    length that does not count the bytes after it.

    ## Example
    ```hex request
    00 00 00 00    # a length of 0
    ```
    ```story
    > ApiVersions v0
    < hex 00 00 00 02 00 23    # an error code without a correlation id
    ```

    ## Look-alikes
    ```story
    > SaslHandshake v0 {"mechanism": "GSSAPI"}
    < {"mechanisms": ["GSSAPI"]}
    > hex 00 00 00 00          # raw SASL tokens are not Kafka requests and may be empty
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    """
    if connection.state(FrameAlignment).classify(event, midstream=connection.midstream) == TINY:
        minimum = MIN_SIZES[event.direction]
        yield Problem(
            f"the length prefix of a {FRAME_KINDS[event.direction]} is {event.size} bytes, "
            f"too small for its header of {minimum}",
            hint="never write a frame without a header; the length counts the bytes that follow it",
            blame=WRITERS[event.direction],
            expected=f"at least {minimum}",
            got=str(event.size),
            cause=FRAME_KINDS[event.direction],
        )
