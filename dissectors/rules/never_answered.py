"""C004: requests still open when the connection ends."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.conversation import Conversation
from dissectors.events import ConnectionEnded
from dissectors.findings import Problem, Severity
from dissectors.rules import rule


@rule("C004", severity=Severity.INFO, events=(ConnectionEnded,), since="0.1")
def never_answered(event: ConnectionEnded, _: Conversation) -> Iterator[Problem]:
    """Says which requests were never answered, when their connection ends.

    ## Why it matters
    A client that waits for an answer that never comes hangs until its request times out.

    ## Usual cause
    A server that drops errors instead of answering them. A client that is stopped while it waits in a Fetch looks the
    same and is fine, so this is for information.

    ## Example
    ```hex request
    00 00 00 0a              # length
    00 12 00 00              # api_key 18 (ApiVersions), api_version 0
    00 00 00 2a              # correlation_id 42
    ff ff                    # client_id null
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_network
    """
    if event.unanswered:
        first = event.unanswered[0].message
        more = f" and {len(event.unanswered) - 1} more" if len(event.unanswered) > 1 else ""
        yield Problem(f"{first.api} v{first.version} with correlation id {first.correlation_id}{more} never answered")
