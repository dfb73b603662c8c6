"""X007: a SASL mechanism that the listener does not support."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState

_UNSUPPORTED_SASL_MECHANISM = Error.UNSUPPORTED_SASL_MECHANISM


@rule(
    "X007",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("SaslHandshake",),
    needs=(Authentication,),
    since="0.1",
    blame="client",
)
def sasl_mechanism_mismatch(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the client requests a SASL mechanism that the listener supports.

    ## Why it matters
    The broker answers UNSUPPORTED_SASL_MECHANISM with its list of mechanisms, and closes the connection.

    ## Usual cause
    sasl.mechanism of the client is not in sasl.enabled.mechanisms of the listener; SCRAM-SHA-256 and SCRAM-SHA-512 are
    different mechanisms. If the refused mechanism is in the broker's own list, the broker is wrong: it does not expect
    a handshake in this state.

    ## Example
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"error_code": 33, "mechanisms": ["SCRAM-SHA-512"]}
    ```
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"error_code": 33, "mechanisms": ["PLAIN"]}
    ```

    ## Look-alikes
    ```story
    > SaslHandshake v1 {"mechanism": "PLAIN"}
    < {"mechanisms": ["SCRAM-SHA-512", "PLAIN"]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#sasl_handshake
    https://github.com/nisshi-io/nisshi/issues/665
    """
    request_body, message = event.request_body, event.message
    if message is None or request_body is None or message.body.get("error_code") != _UNSUPPORTED_SASL_MECHANISM:
        return
    if connection.state(Authentication).is_reauthentication:
        return  # X012
    requested, offered = request_body.get("mechanism"), message.body.get("mechanisms") or []
    names = ", ".join(map(str, offered)) or "none"
    if requested in offered:
        yield Problem(
            f"SaslHandshake: server {connection.server} refuses mechanism {requested!r} with "
            f"UNSUPPORTED_SASL_MECHANISM but lists it as supported ({names})",
            hint="fix the broker: it must accept a handshake in this state",
            blame="broker",
            **locate(message, "error_code"),
        )
    else:
        yield Problem(
            f"SaslHandshake: the client requests mechanism {requested!r}, but server {connection.server} supports "
            f"{names} (UNSUPPORTED_SASL_MECHANISM)",
            hint="set sasl.mechanism on the client, or sasl.enabled.mechanisms of this listener",
            expected=f"one of {names}",
            got=repr(requested),
            cause=str(requested),
            **locate(message, "mechanisms"),
        )
