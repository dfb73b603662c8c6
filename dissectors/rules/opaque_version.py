"""L032: an API version that the schemas do not have."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import schemas
from dissectors.conversation import Conversation
from dissectors.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule


@rule("L032", severity=Severity.INFO, events=(RequestReceived,), broken=True, since="0.1")
def opaque_version(event: RequestReceived, _: Conversation) -> Iterator[Problem]:
    """Says that a request's version is none that kproxy can decode; it is relayed all the same.

    ## Why it matters
    Neither the request nor its response is decoded, so nothing can be found in them.

    ## Usual cause
    A client newer than kproxy's schemas. A key or version that is written wrong looks the same.

    ## Example
    ```hex request
    00 00 00 0a              # length
    00 03 00 63              # api_key 3 (Metadata), api_version 99
    00 00 00 2a              # correlation_id 42
    ff ff                    # client_id null
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_api_keys
    """
    message = event.message
    if message.opaque and message.layout is None and schemas.api(message.api_key) is not None:
        yield Problem(message.opaque, 6, 8, "header.request_api_version")
