"""L001: bytes after the last field."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.conversation import Conversation
from dissectors.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule


@rule("L001", severity=Severity.ERROR, events=(RequestReceived, ResponseReceived), broken=True, since="0.1")
def trailing_bytes(event: RequestReceived | ResponseReceived, _: Conversation) -> Iterator[Problem]:
    """Checks that a message ends where its frame ends.

    ## Why it matters
    Strict clients refuse the whole message ("reading a response left 4 unread bytes"); lenient ones drop a field.

    ## Usual cause
    A field of another version was written too, or one was written twice.

    ## Example
    ```hex request
    00 00 00 0e              # length
    00 12 00 00              # api_key 18 (ApiVersions), api_version 0
    00 00 00 2a              # correlation_id 42
    ff ff                    # client_id null
    00 00 00 00              # nothing of ApiVersions v0
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_messages
    """
    message = event.message
    if message is not None and message.trailing and not event.damaged:
        extra = message.trailing
        yield Problem(
            f"{extra} byte{'s' * (extra != 1)} left after the last field of {message.api} v{message.version}",
            message.end,
            len(message.frame),
        )
