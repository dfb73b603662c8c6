"""V004: an UNSUPPORTED_VERSION response to ApiVersions that is not written as version 0."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.message import UNSUPPORTED_VERSION
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.wire.layout import layout


@rule("V004", severity=Severity.ERROR, events=(ResponseReceived,), apis=("ApiVersions",), since="0.1", blame="broker")
def unsupported_reply_wrong_shape(event: ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that an ApiVersions response with error UNSUPPORTED_VERSION has the layout of version 0.

    Info if the request was not seen.

    ## Why it matters
    A server that does not know the requested version cannot write it: KIP-511 requires version 0, and clients read it
    as such. In any other layout, the body is too long, or its first fields are misread, and clients fail at their
    first request.

    ## Usual cause
    A server, or a proxy that decodes and re-encodes, that writes the response in the requested version.

    ## Example
    ```story
    > ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    < {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}
    < as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 3}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-511%3A+Collect+and+Expose+Client%27s+Name+and+Version+in+the+Brokers
    https://github.com/kroxylicious/kroxylicious/issues/2467
    https://github.com/kroxylicious/kroxylicious/issues/1635
    """
    message = event.message
    if message is None or message.body["error_code"] != UNSUPPORTED_VERSION:
        return
    if message.diagnosis is None and message.layout is not layout("ApiVersionsResponse", 0):
        yield Problem(
            f"ApiVersions v{message.version} got UNSUPPORTED_VERSION in the layout of v{message.version};"
            " it must be in the layout of v0",
            **locate(message, "api_keys"),
            hint="write this response as version 0 (KIP-511), whatever version was requested",
            expected="v0",
            got=f"v{message.version}",
            severity=None if event.request_body is not None else Severity.INFO,
        )
