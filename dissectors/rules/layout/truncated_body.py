"""L002: a message that ends before its layout does, or otherwise does not decode."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.wire.paths import render


@rule(
    "L002",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
)
def truncated_body(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that every field of a message can be decoded.

    ## Why it matters
    The receiver stops at that byte: it fails, closes the connection, or hangs.

    ## Usual cause
    An earlier field is missing, duplicated or of another version, so everything after it is read at the wrong offset.

    ## Example
    ```hex request
    00 00 00 11              # length
    00 03 00 00              # api_key 3 (Metadata), api_version 0
    00 00 00 01              # correlation_id 1
    ff ff                    # client_id null
    00 00 00 01              # one topic
    00 04 61                 # a name of four bytes, but only one follows
    ```

    ## Look-alikes
    ```story
    > Metadata v0 {"topics": [{"name": "a"}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_types
    """
    message = event.message
    if message is None or message.error is None or message.error.kind or event.damaged:
        return  # L022 and L024 report impossible lengths and overlong varints
    diagnosis = message.diagnosis
    if diagnosis is None or diagnosis.edit.kind == "truncated":
        error = message.error
        yield Problem(
            f"{message.api} v{message.version}: {error}",
            error.offset,
            len(message.frame),
            render(error.path) or None,
            diagnosis=diagnosis,
        )
