"""X013: a SCRAM nonce that differs from the one that both sides agreed on."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived, TokenReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.sasl_messages import is_from_client, token_location
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger


@rule(
    "X013",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("SaslAuthenticate",),
    also=(Trigger((TokenReceived,)),),
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def scram_nonce(
    event: RequestReceived | ResponseReceived | TokenReceived, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that both sides of a SCRAM login use the same nonce.

    ## Why it matters
    The server's nonce is the client's nonce plus the server's own part, and the client's last message must repeat it
    exactly. A side that checks this refuses the login even if the password is right; a side that does not can be
    tricked.

    ## Usual cause
    A client that appends its own nonce to the server's once more, as librdkafka before 2.6.1 does, or truncates it at
    a character that it takes for the end. A server that generates its own nonce. Kafka 4 compares the nonces strictly.

    ## Example
    The client's last message has nonce "abX" where the server sent "abc":
    ```story
    > SaslHandshake v1 {"mechanism": "SCRAM-SHA-256"}
    < {"mechanisms": ["SCRAM-SHA-256"]}
    > SaslAuthenticate v1 {"auth_bytes": "6e 2c 2c 6e 3d 75 2c 72 3d 61 62"}
    < {"auth_bytes": "72 3d 61 62 63 2c 73 3d 51 51 3d 3d 2c 69 3d 34 30 39 36"}
    > SaslAuthenticate v1 {"auth_bytes": "63 3d 62 69 77 73 2c 72 3d 61 62 58 2c 70 3d 51 51 3d 3d"}
    ```

    ## Look-alikes
    ```story
    > SaslHandshake v1 {"mechanism": "SCRAM-SHA-256"}
    < {"mechanisms": ["SCRAM-SHA-256"]}
    > SaslAuthenticate v1 {"auth_bytes": "6e 2c 2c 6e 3d 75 2c 72 3d 61 62"}
    < {"auth_bytes": "72 3d 61 62 63 2c 73 3d 51 51 3d 3d 2c 69 3d 34 30 39 36"}
    > SaslAuthenticate v1 {"auth_bytes": "63 3d 62 69 77 73 2c 72 3d 61 62 63 2c 70 3d 51 51 3d 3d"}
    ```

    ## Sources
    https://www.rfc-editor.org/rfc/rfc5802#section-5.1
    https://github.com/confluentinc/librdkafka/pull/4895
    """
    authentication = connection.state(Authentication)
    client_nonce, server_nonce = authentication.client_nonce, authentication.server_nonce
    if server_nonce is None:
        return
    location = token_location(event)
    if is_from_client(event):
        if authentication.final_nonce is not None and authentication.final_nonce != server_nonce:
            yield Problem(
                f"client {connection.client_id!r} sends a nonce that differs from the server's in the last message of "
                f"its {authentication.mechanism} login",
                hint="fix or upgrade the client (librdkafka before 2.6.1 does this): r= of its last message must be "
                "the server's nonce, byte for byte",
                **location,
            )
    elif (
        authentication.tokens == 1
        and client_nonce is not None
        and (not server_nonce.startswith(client_nonce) or server_nonce == client_nonce)
    ):
        yield Problem(
            f"the {authentication.mechanism} nonce of server {connection.server} does not begin with the client's",
            hint="fix the server: its nonce must start with the client's nonce and append its own part",
            blame="broker",
            **location,
        )
