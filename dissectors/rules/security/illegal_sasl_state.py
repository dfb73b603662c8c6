"""X017: a request that is not allowed in the current SASL state."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_LOGIN = frozenset({"SaslHandshake", "SaslAuthenticate"})
_ILLEGAL_SASL_STATE = Error.ILLEGAL_SASL_STATE


@rule(
    "X017",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    only=FrameFlags.SASL,
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def illegal_sasl_state(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that SASL requests come in the right order, on a listener that uses SASL.

    ## Why it matters
    Between SaslHandshake and the last SaslAuthenticate, a broker accepts nothing else: it answers ILLEGAL_SASL_STATE
    or just closes the connection. A listener without SASL answers any SASL request the same way.

    ## Usual cause
    security.protocol=SASL_PLAINTEXT on a PLAINTEXT listener, or a client that sends requests before it has logged in.

    ## Example
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > Metadata v9 {"topics": null}
    ```
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"error_code": 34}
    ```

    ## Look-alikes
    A client that does not wait for the response to its only token:
    ```story
    > ApiVersions v0
    < {"api_keys": [{"api_key": 17, "max_version": 1}]}
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "00 61 00 62"}
    > Metadata v9 {"topics": null}
    < {}
    < {}
    ```

    ## Sources
    https://kafka.apache.org/protocol#sasl_handshake
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-152+-+Improve+diagnostics+for+SASL+authentication+failures
    """
    message = event.message
    if message is None or (isinstance(event, ResponseReceived) and message.api not in _LOGIN):
        return
    authentication = connection.state(Authentication)
    if authentication.is_reauthentication:
        return  # X011 and X012
    if isinstance(event, RequestReceived):
        if authentication.awaits_token and message.api not in _LOGIN:
            yield Problem(
                f"client {message.client_id!r} sends {message.api} in the middle of its SASL login",
                hint="fix the client: it must send nothing else between SaslHandshake and its last token",
                expected="SaslAuthenticate",
                got=message.api,
                **locate(message, "header", "request_api_key"),
            )
    elif message.body.get("error_code") == _ILLEGAL_SASL_STATE and event.request_body is not None:
        yield Problem(
            f"server {connection.server} refuses {message.api} here: ILLEGAL_SASL_STATE",
            hint="this listener may not use SASL: set security.protocol=PLAINTEXT or SSL, or use the SASL port",
            **locate(message, "error_code"),
        )
