"""L023: text that is not UTF-8."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.decode_warnings import others_suffix, sender_of, warning_location, warnings_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L023",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def invalid_utf8_string(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that every string is valid UTF-8.

    ## Why it matters
    Java replaces invalid bytes with U+FFFD and continues with a different name: a group or client id that nobody finds
    again. Stricter clients fail.

    ## Usual cause
    A client that writes Latin-1 or raw bytes (a hash, a binary key) into an id, or an earlier field is wrong and these
    bytes are not text.

    ## Example
    ```hex request
    00 00 00 0e              # length
    00 12 00 00              # api_key 18 (ApiVersions), api_version 0
    00 00 00 2a              # correlation_id 42
    00 04 63 61 66 e9        # client_id "café" in Latin-1
    ```

    ## Look-alikes
    ```hex request
    00 00 00 0f              # length
    00 12 00 00              # api_key 18 (ApiVersions), api_version 0
    00 00 00 2a              # correlation_id 42
    00 05 63 61 66 c3 a9     # client_id "café" in UTF-8
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_types
    """
    message = event.message
    if message is not None and (warnings := warnings_of(message, "utf8")):
        location = warning_location(message, warnings[0])
        yield Problem(
            f"{location['path']} of {message.api} v{message.version} is not UTF-8{others_suffix(len(warnings))}",
            **location,
            hint="encode text as UTF-8; encode binary ids as hex or base64",
            blame=sender_of(message),
        )
