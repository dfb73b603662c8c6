"""X009: SASL tokens outside Kafka's framing."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule(
    "X009",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("SaslHandshake",),
    since="0.1",
    blame="client",
)
def sasl_v0_raw(event: RequestReceived, _: ConnectionState) -> Iterator[Problem]:
    """Reports that a client sends its SASL tokens without Kafka headers (SaslHandshake v0).

    ## Why it matters
    A failed login then just closes the connection, without an error code, and the session cannot be renewed: if the
    broker sets connections.max.reauth.ms, such clients are disconnected.

    ## Usual cause
    An old client, or one configured for an old protocol version (Sarama below V1_0_0_0: Net.SASL.Version).

    ## Example
    ```story
    > SaslHandshake v0 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > hex 00 00 00 04 00 61 00 62
    < hex 00 00 00 00
    ```

    ## Look-alikes
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v0 {"auth_bytes": "00 61 00 62"}
    < {}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-152+-+Improve+diagnostics+for+SASL+authentication+failures
    https://github.com/IBM/sarama/pull/2234
    """
    if event.message.version == 0:
        yield Problem(
            f"client {event.message.client_id!r} sends its SASL tokens without request headers (SaslHandshake v0)",
            hint="newer clients use SaslHandshake v1 and SaslAuthenticate, which report why a login fails",
            **locate(event.message, "header", "request_api_version"),
        )
