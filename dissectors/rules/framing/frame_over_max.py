"""M001: a length prefix above Kafka's limit."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import Direction, FramingLost
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.frame_alignment import FRAME_KINDS, OVER_MAX, WRITERS, FrameAlignment
from dissectors.trackers.state import ConnectionState
from dissectors.wire.limits import MAX_FRAME_BYTES


@rule("M001", severity=Severity.ERROR, events=(FramingLost,), needs=(FrameAlignment,), since="0.1")
def frame_over_max(event: FramingLost, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that no frame's length prefix exceeds 100 MiB, Kafka's default limit.

    ## Why it matters
    A broker closes the connection if a request exceeds its ``socket.request.max.bytes`` ("Invalid receive"). Clients
    limit responses too: librdkafka's ``receive.message.max.bytes`` is 100,000,000. kproxy stops decoding that
    direction.

    ## Usual cause
    A producer or consumer with size limits far above the broker's, or bytes that are not Kafka at all, such as text
    read as a length.

    ## Example
    ```hex request
    06 40 00 28    # a length of 104857640: 40 bytes above the limit
    ```
    ```story
    > ApiVersions v0
    < hex 65 72 72 6f 72 0a    # "error" read as a length of 1.7 GB
    ```

    ## Look-alikes
    ```hex request
    06 40 00 00    # a length of 104857600: the rest of the frame has not arrived yet
    ```
    ```story
    > hex 47 45 54 20 2f 20 48 54 54 50 2f 31 2e 31 0d 0a    # GET / HTTP/1.1 is X003
    ```

    ## Sources
    https://kafka.apache.org/documentation/#brokerconfigs_socket.request.max.bytes
    https://github.com/confluentinc/librdkafka/issues/1616
    https://github.com/dpkp/kafka-python/issues/3074
    """
    if connection.state(FrameAlignment).classify(event, midstream=connection.midstream) == OVER_MAX:
        is_response = event.direction is Direction.RESPONSE
        text = _prefix_text(event)
        yield Problem(
            f"the length prefix of a {FRAME_KINDS[event.direction]} is {event.size} bytes, "
            f"above Kafka's default limit of {MAX_FRAME_BYTES}",
            hint=f"the four bytes are the text {text!r}: find out what wrote it to a Kafka connection"
            if text
            else "lower the client's max.request.size or fetch sizes, or raise the limit on both sides",
            blame=WRITERS[event.direction],
            # a client whose limits were raised accepts such a response
            severity=Severity.WARNING if is_response and not text else None,
            expected=f"at most {MAX_FRAME_BYTES}",
            got=str(event.size),
            cause=FRAME_KINDS[event.direction],
        )


def _prefix_text(event: FramingLost) -> str | None:
    """Return the length prefix as text, or None unless its four bytes are printable ASCII."""
    raw = (event.size or 0).to_bytes(4, "big")
    return raw.decode("ascii") if all(0x20 <= byte < 0x7F for byte in raw) else None
