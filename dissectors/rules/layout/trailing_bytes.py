"""L001: bytes after the last field."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis.cast_lengths import find_cast_length
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.layout_findings import layout_problems
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L001",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def trailing_bytes(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that no bytes are left after the last field of a message.

    ## Why it matters
    Strict clients refuse the whole message ("reading a response left 4 unread bytes"); lenient ones lose a field.

    ## Usual cause
    The writer added a field of another version, or wrote one twice.

    ## Example
    ```story
    > ApiVersions v0
    # 7 bytes that are nothing of any version
    < hex 00000017 00000001 0000 00000001 0012 0000 0003 ff9c3e01d2eeaa
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0
    < {"api_keys": [{"api_key": 18, "max_version": 3}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    """
    message = event.message
    if message is None or not message.trailing or event.damaged:
        return
    if message.diagnosis is None or message.diagnosis.edit.kind == "truncated":
        if find_cast_length(message) is not None:
            return  # L042
        extra = message.trailing
        yield Problem(
            f"{extra} byte{'s' * (extra != 1)} left after the last field of {message.api} v{message.version}",
            message.end,
            len(message.frame),
        )
    else:
        yield from layout_problems(event, "trailing_bytes")
