"""M003: a length prefix too small for a header."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import FramingLost
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.frame_alignment import KINDS, LEAST, TINY, WRITERS, FrameAlignment
from dissectors.trackers.state import ConnectionState


@rule("M003", severity=Severity.ERROR, events=(FramingLost,), needs=(FrameAlignment,), since="0.1")
def tiny_frame(event: FramingLost, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a frame is long enough for its header: 8 bytes for a request, 4 for a response.

    ## Why it matters
    There is no room for an API key, a version and a correlation id, so whoever reads it closes the connection.

    ## Usual cause
    An empty frame as a keep-alive, which Kafka does not have; zeros after a frame that was written longer than its
    length; a length that counts something else than the bytes after it.

    ## Example
    ```hex request
    00 00 00 00    # a length of 0
    ```
    ```story
    > ApiVersions v0
    < hex 00 00 00 02 00 23    # an error code without a correlation id
    ```

    ## Looks alike
    ```story
    > SaslHandshake v0 {"mechanism": "GSSAPI"}
    < {"mechanisms": ["GSSAPI"]}
    > hex 00 00 00 00          # SASL tokens stand outside Kafka's requests, and may be empty
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    """
    if connection.state(FrameAlignment).verdict(event, midstream=connection.midstream) == TINY:
        least = LEAST[event.direction]
        yield Problem(
            f"the length prefix of a {KINDS[event.direction]} says {event.size} bytes, "
            f"too few for its header of {least}",
            hint="write no frame without a header; the length counts the bytes that follow it",
            blame=WRITERS[event.direction],
            expected=f"at least {least}",
            got=str(event.size),
            cause=KINDS[event.direction],
        )
