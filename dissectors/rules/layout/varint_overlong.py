"""L024: a varint that is too long, or padded."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.decode_warnings import (
    error_location,
    is_unexplained,
    others_suffix,
    sender_of,
    warning_location,
    warnings_of,
)
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L024",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def varint_overlong(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that every varint fits in five bytes; also reports padded varints.

    ## Why it matters
    Kafka reads at most five bytes and 32 bits ("Varint is too long") and closes the connection. All readers accept a
    padded varint (``80 00`` for 0), but few writers produce one: it is reported as info.

    ## Usual cause
    The bytes are not a varint: a fixed-width length, a negative number or text is where a compact length should be. Or
    a 64-bit number was written for a 32-bit field.

    ## Example
    ```hex request
    00 00 00 1a              # length
    00 03 00 09              # api_key 3 (Metadata), api_version 9
    00 00 00 01              # correlation_id 1
    ff ff 00                 # client_id null, no tagged fields
    02                       # one topic
    ff ff ff ff ff 01        # the length of its name has not ended after five bytes
    61 62 63 00              # its name, no tagged fields
    01 00 00 00              # three booleans, no tagged fields
    ```
    ```story
    > hex 00 00 00 11 00 03 00 09 00 00 00 01 ff ff 00 81 00 01 00 00 00    # 81 00 is 1, padded
    ```

    ## Look-alikes
    ```hex request
    00 00 00 16              # length
    00 03 00 09              # api_key 3 (Metadata), api_version 9
    00 00 00 01              # correlation_id 1
    ff ff 00                 # client_id null, no tagged fields
    00 01 00 00              # all topics, three booleans
    01 ff ff ff ff 0f 00     # a tag of five bytes and 32 bits
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-482
    https://github.com/kafka-protocol-rs/kafka-protocol-rs/pull/159
    """
    message = event.message
    if message is None or event.damaged:
        return
    if is_unexplained(message, "varint"):
        assert message.error is not None
        location = error_location(message)
        yield Problem(
            f"{message.api} v{message.version} cannot be read at {location['path']}: {message.error.message}",
            **location,
            hint="these bytes are not a varint: flexible versions have compact lengths, others int16 and int32",
            blame=sender_of(message),
            expected="at most 5 bytes and 32 bits",
            got=message.frame[location["start"] : location["end"]].hex(" "),
            diagnosis=message.diagnosis,
        )
    elif message.well_formed and (warnings := warnings_of(message, "varint")):
        yield Problem(
            f"{message.api} v{message.version}: {warnings[0].message}{others_suffix(len(warnings))}",
            **warning_location(message, warnings[0]),
            hint="write varints with the minimum number of bytes",
            blame=sender_of(message),
            severity=Severity.INFO,
        )
