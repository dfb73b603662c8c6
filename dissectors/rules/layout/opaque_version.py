"""L032: an API version that the schemas do not have."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import schemas
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule("L032", severity=Severity.INFO, events=(RequestReceived,), broken=True, only=FrameFlags.IRREGULAR, since="0.1")
def opaque_version(event: RequestReceived, _: ConnectionState) -> Iterator[Problem]:
    """Reports that kproxy cannot decode a request's version; the request is still relayed.

    ## Why it matters
    Neither the request nor its response is decoded, so kproxy cannot find problems in them.

    ## Usual cause
    A client newer than kproxy's schemas. A corrupt API key or version looks the same.

    ## Example
    ```hex request
    00 00 00 0a              # length
    00 03 00 63              # api_key 3 (Metadata), api_version 99
    00 00 00 2a              # correlation_id 42
    ff ff                    # client_id null
    ```

    ## Look-alikes
    ```hex request
    00 00 00 0f              # length
    00 03 00 0d              # api_key 3 (Metadata), api_version 13: the latest that Kafka 4.4 has
    00 00 00 2a              # correlation_id 42
    ff ff 00                 # client_id null, no tagged fields
    01 01 00 00              # no topics, two booleans, no tagged fields
    ```
    ```hex request
    00 00 00 0a              # length
    03 e7 00 00              # api_key 999: no API at all (L031)
    00 00 00 2a              # correlation_id 42
    ff ff                    # client_id null
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_api_keys
    https://github.com/grepplabs/kafka-proxy/issues/177
    https://github.com/envoyproxy/envoy/issues/26171
    """
    message = event.message
    if (
        not message.opaque
        or message.failure
        or message.layout is not None
        or (api := schemas.api(message.api_key)) is None
    ):
        return
    yield Problem(
        f"{message.opaque}; it is relayed, but neither the request nor its response is decoded",
        6,
        8,
        "header.request_api_version",
        hint="if the version exists: kproxy schemas import RELEASE",
        expected=f"{api.min_version} to {api.max_version}",
        got=str(message.version),
    )
