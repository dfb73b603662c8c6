"""L026: an implausible value in a frame that decodes."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.decode_warnings import others_suffix, sender_of, warning_location, warnings_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L026", severity=Severity.INFO, events=(RequestReceived, ResponseReceived), only=FrameFlags.IRREGULAR, since="0.1"
)
def implausible_int(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Reports implausible values: an unknown error code, a port above 65535, a topic name with a NUL byte.

    ## Why it matters
    Such a value usually consists of bytes of another field: the message is shifted by a few bytes and decodes to the
    end by chance. If kproxy finds the shift, it reports L003 to L013 instead; here, no other layout fits better.

    ## Usual cause
    A broker or gateway with its own error codes, or one newer than kproxy; or a shift that leaves too little evidence.

    ## Example
    ```story
    > Heartbeat v0 {"group_id": "g"}
    < {"error_code": 2667}
    ```

    ## Look-alikes
    ```story
    > Heartbeat v0 {"group_id": "g"}
    < {"error_code": 27}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_error_codes
    """
    message = event.message
    if message is not None and (warnings := warnings_of(message, "implausible")):
        yield Problem(
            f"{message.api} v{message.version}: {warnings[0].message}{others_suffix(len(warnings))}",
            **warning_location(message, warnings[0]),
            hint="check the fields before it: one may be missing or extra",
            blame=sender_of(message),
        )
