"""L022: a length that is negative or exceeds the frame."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.decode_warnings import error_location, is_unexplained, sender_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L022",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def impossible_length(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that no length or count is below -1 or larger than the whole frame.

    ## Why it matters
    Readers fail ("expected 36681250 bytes > 150 remaining"), close the connection, or try to allocate that much
    memory.

    ## Usual cause
    The bytes were not meant as a length: an earlier field is missing, extra or in another encoding. Check the fields
    before it, not this one.

    ## Example
    ```hex request
    00 00 00 12              # length
    00 03 00 00              # api_key 3 (Metadata), api_version 0
    00 00 00 01              # correlation_id 1
    ff ff                    # client_id null
    00 00 00 01              # one topic
    7f ff 61 62              # a name of 32767 bytes in a frame of 22
    ```
    ```story
    > hex 00 00 00 0e 00 03 00 00 00 00 00 01 ff ff ff ff ff f0    # an array of -16 topics
    ```

    ## Look-alikes
    ```story
    > Metadata v1 {"topics": null}    # -1 is null
    ```
    ```hex request
    00 00 00 11              # length
    00 03 00 00 00 00 00 01 ff ff
    00 00 00 01              # one topic
    00 04 61                 # a name of four bytes, but only one follows: truncated, L002
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_types
    https://github.com/edenhill/kcat/issues/67
    https://github.com/tulios/kafkajs/issues/715
    """
    message = event.message
    if message is None or event.damaged or not is_unexplained(message, "length"):
        return
    assert message.error is not None
    location = error_location(message)
    yield Problem(
        f"{message.api} v{message.version} cannot be read at {location['path']}: "
        f"{message.error.message}, in a frame of {len(message.frame)}",
        **location,
        hint="the number was not meant as a length: compare the fields before it with the layout of this version",
        blame=sender_of(message),
        diagnosis=message.diagnosis,
    )
