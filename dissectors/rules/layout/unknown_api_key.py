"""L031: an API key that no Kafka release has."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import schemas
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "L031",
    severity=Severity.WARNING,
    events=(RequestReceived,),
    broken=True,
    only=FrameFlags.IRREGULAR,
    since="0.1",
    blame="client",
)
def unknown_api_key(event: RequestReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that the API key of a request exists in some Kafka release.

    ## Why it matters
    A broker closes the connection on an unknown API key. kproxy relays the request but cannot decode it or its
    response.

    ## Usual cause
    A malformed request header, a vendor-specific API, or a Kafka release newer than kproxy's schemas.

    ## Example
    ```hex request
    00 00 00 0a              # length
    03 e7 00 00              # api_key 999, api_version 0
    00 00 00 2a              # correlation_id 42
    ff ff                    # client_id null
    ```

    ## Look-alikes
    ```hex request
    00 00 00 0a              # length
    00 03 00 63              # api_key 3 (Metadata), api_version 99: the API is known, its version is not (L032)
    00 00 00 2a              # correlation_id 42
    ff ff                    # client_id null
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_api_keys
    https://github.com/kroxylicious/kroxylicious/issues/444
    """
    message = event.message
    if len(message.frame) >= 8 and schemas.api(message.api_key) is None:
        yield Problem(
            f"a request has the API key {message.api_key}, which no Kafka release known to kproxy has",
            4,
            6,
            "header.request_api_key",
            hint="check the first two bytes after the length; if a newer Kafka has this API: kproxy schemas "
            "import RELEASE",
            got=str(message.api_key),
        )
