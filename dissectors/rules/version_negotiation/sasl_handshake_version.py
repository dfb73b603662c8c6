"""V014: a SaslHandshake version that the server does not serve."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import schemas
from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.trackers.versions import SASL_HANDSHAKE, Versions, range_text


@rule(
    "V014",
    severity=Severity.ERROR,
    events=(RequestReceived,),
    broken=True,
    only=FrameFlags.FIRST,
    needs=(Versions,),
    since="0.1",
    blame="client",
)
def sasl_handshake_version(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that SaslHandshake is sent in a version that the server advertises.

    If the advertised versions are unknown, the version must exist in some Kafka release.

    ## Why it matters
    The version decides what follows: after v0, tokens are sent without a header; after v1, as SaslAuthenticate
    requests. With any other version, the server closes the connection, and the client cannot log in.

    ## Usual cause
    A client that uses the broker's highest version without supporting it, or its own highest version without sending
    ApiVersions first.

    ## Example
    ```hex request
    00 00 00 11              # length
    00 11 00 02              # api_key 17 (SaslHandshake), api_version 2
    00 00 00 01              # correlation_id 1
    ff ff                    # client_id null
    00 05 50 4c 41 49 4e     # mechanism PLAIN
    ```
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 17, "max_version": 0}, {"api_key": 18, "max_version": 0}]}
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v0 {}
    < {"api_keys": [{"api_key": 17, "max_version": 1}, {"api_key": 18, "max_version": 3}]}
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    ```

    ## Sources
    https://github.com/apache/kafka/pull/8142
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-152+-+Improve+diagnostics+for+SASL+authentication+failures
    """
    message = event.message
    if message.api_key != SASL_HANDSHAKE:
        return
    ranges = connection.state(Versions).ranges(connection)
    api = schemas.api(SASL_HANDSHAKE)
    assert api is not None
    advertised = ranges.get(SASL_HANDSHAKE) if ranges else None
    lowest, highest = advertised or (api.min_version, api.max_version)
    if not lowest <= message.version <= highest:
        range_name = f"the versions of {connection.server}" if advertised else "the known versions"
        yield Problem(
            f"SaslHandshake v{message.version} is outside {range_text((lowest, highest))}, {range_name}",
            6,
            8,
            "header.request_api_version",
            hint=f"send v{highest}, and encode the tokens as that version requires",
            expected=range_text((lowest, highest)),
            got=f"v{message.version}",
        )
