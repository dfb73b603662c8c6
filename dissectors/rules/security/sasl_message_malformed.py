"""X020: a malformed SASL message."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived, TokenReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.sasl_messages import is_from_client, token_location
from dissectors.sasl.messages import ScramClientFirst
from dissectors.sasl.scram import UNESCAPED
from dissectors.trackers.authentication import Authentication, SaslPhase
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger


@rule(
    "X020",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("SaslAuthenticate",),
    also=(Trigger((TokenReceived,)),),
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def sasl_message_malformed(
    event: RequestReceived | ResponseReceived | TokenReceived, connection: ConnectionState
) -> Iterator[Problem]:
    """Checks that the messages of PLAIN, SCRAM and OAUTHBEARER have the form that their RFCs define.

    ## Why it matters
    The broker refuses such a message with the same error as a wrong password, so people look for the cause in the
    credentials. The finding names what is missing, and quotes nothing.

    ## Usual cause
    A client that was written by hand: PLAIN without the first NUL, SCRAM without its GS2 header, a bearer token that
    is sent bare. A client with an empty setting for the user or the password. A SCRAM client that wants channel
    binding (SCRAM-SHA-256-PLUS), which Kafka does not support.

    ## Example
    A user and a password without the NUL before them:
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["PLAIN"]}
    > SaslAuthenticate v1 {"auth_bytes": "61 00 62"}
    ```
    A user name "a=b" that is not escaped:
    ```story
    > SaslHandshake v1 {"mechanism": "SCRAM-SHA-256"}
    < {"mechanisms": ["SCRAM-SHA-256"]}
    > SaslAuthenticate v1 {"auth_bytes": "6e 2c 2c 6e 3d 61 3d 62 2c 72 3d 61 62"}
    ```
    "p=tls-unique" instead of "n":
    ```story
    > SaslHandshake v1 {"mechanism": "SCRAM-SHA-256"}
    < {"mechanisms": ["SCRAM-SHA-256"]}
    > SaslAuthenticate v1 {"auth_bytes": "70 3d 74 6c 73 2d 75 6e 69 71 75 65 2c 2c 6e 3d 75 2c 72 3d 61 62"}
    ```

    ## Look-alikes
    A mechanism that kproxy does not know, and an answer that is an error:
    ```story
    > SaslHandshake v1 {"mechanism": "EXTERNAL"}
    < {"mechanisms": ["EXTERNAL"]}
    > SaslAuthenticate v1 {"auth_bytes": "61 00 62"}
    < {}
    2> SaslHandshake v1 {"mechanism": "SCRAM-SHA-256"}
    2< {"mechanisms": ["SCRAM-SHA-256"]}
    2> SaslAuthenticate v1 {"auth_bytes": "6e 2c 2c 6e 3d 75 2c 72 3d 61 62"}
    2< {"error_code": 58}
    ```

    ## Sources
    https://www.rfc-editor.org/rfc/rfc4616#section-2
    https://www.rfc-editor.org/rfc/rfc5802#section-7
    https://www.rfc-editor.org/rfc/rfc7628#section-3.1
    """
    authentication = connection.state(Authentication)
    if authentication.phase in (SaslPhase.UNKNOWN, SaslPhase.NONE):
        return
    mechanism = authentication.mechanism
    if is_from_client(event):
        problem = authentication.client.problem
        if isinstance(message := authentication.client, ScramClientFirst) and message.channel_binding != "n":
            problem = f"asks for channel binding ({message.channel_binding}), which Kafka does not have"
        sender, blame = f"client {connection.client_id!r}", None
        hint = f"check that user, password or token are set, and how the client builds its {mechanism} message"
        if problem == UNESCAPED:
            hint = (
                "fix the client: it must write '=' as =3D and ',' as =2C in a SCRAM user name (RFC 5802, section 5.1)"
            )
    elif authentication.phase is SaslPhase.FAILED:
        return
    else:
        problem = authentication.server.problem
        sender, blame, hint = f"server {connection.server}", "broker", f"fix the server's {mechanism}"
    if problem is not None:
        yield Problem(
            f"a {mechanism} message of {sender} {problem}",
            hint=hint,
            blame=blame,
            cause=f"{mechanism} {problem}",
            **token_location(event),
        )
