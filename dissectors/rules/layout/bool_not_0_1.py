"""L025: a boolean that is neither 0 nor 1."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.decode_warnings import others_suffix, sender_of, warning_location, warnings_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L025",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def bool_not_0_1(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that booleans are 0 or 1, and that the presence byte of a nullable struct is 1 or -1.

    ## Why it matters
    Java reads every nonzero value as true; other readers refuse it. Usually the byte belongs to another field, and the
    fields around it are misread too.

    ## Usual cause
    An earlier field is missing, extra or of the wrong width, in a message whose end still fits by chance.

    ## Example
    ```hex request
    00 00 00 12              # length
    00 03 00 04              # api_key 3 (Metadata), api_version 4
    00 00 00 01              # correlation_id 1
    ff ff                    # client_id null
    00 00 00 01 00 01 61     # topics: "a"
    02                       # allow_auto_topic_creation
    ```

    ## Look-alikes
    ```hex request
    00 00 00 12              # length
    00 03 00 04              # api_key 3 (Metadata), api_version 4
    00 00 00 01              # correlation_id 1
    ff ff                    # client_id null
    00 00 00 01 00 01 61     # topics: "a"
    01                       # allow_auto_topic_creation
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_types
    """
    message = event.message
    if message is not None and (warnings := warnings_of(message, "bool", "length")):
        location = warning_location(message, warnings[0])
        yield Problem(
            f"{location['path']} of {message.api} v{message.version}: "
            f"{warnings[0].message}{others_suffix(len(warnings))}",
            **location,
            hint="compare the fields before it with the layout of this version: one may be missing or extra",
            blame=sender_of(message),
            expected="0 or 1" if warnings[0].kind == "bool" else "1, or -1 for null",
            got=str(message.frame[location["start"]]),
        )
