"""SASL: the messages of the mechanisms that Kafka uses, as typed values without their secrets.

Passwords, salts, proofs, signatures and tokens are dropped while a message is read: no value created here holds one, so
no output can. Nonces are kept for comparison, but left out of `repr`. No function raises, whatever the bytes.
"""

from __future__ import annotations

from dissectors.sasl import gssapi, oauthbearer, plain, scram
from dissectors.sasl.messages import SaslMessage

__all__ = ["SaslMessage", "read_client", "read_server"]


_SCRAM_CLIENT = {1: scram.read_client_first, 2: scram.read_client_final}
_SCRAM_SERVER = {1: scram.read_server_first, 2: scram.read_server_final}


def read_client(mechanism: str, number: int, data: bytes) -> SaslMessage:
    """Read the client's message `number` (1 is its first) of a login with `mechanism`, as SaslHandshake names it.

    Returns:
        A bare `SaslMessage` if the mechanism is unknown or has no such message.
    """
    if mechanism.startswith("SCRAM-"):
        return _SCRAM_CLIENT.get(number, _read_unknown)(data)
    if mechanism == "GSSAPI":
        return gssapi.read(data)
    if mechanism == "PLAIN" and number == 1:
        return plain.read(data)
    if mechanism == "OAUTHBEARER" and number == 1:
        return oauthbearer.read_client_first(data)
    return SaslMessage()


def read_server(mechanism: str, number: int, data: bytes) -> SaslMessage:
    """Read the server's answer to the client's message `number`, as `read_client` does."""
    if mechanism.startswith("SCRAM-"):
        return _SCRAM_SERVER.get(number, _read_unknown)(data)
    if mechanism == "GSSAPI":
        return gssapi.read(data)
    if mechanism == "OAUTHBEARER" and number == 1 and data:
        return oauthbearer.read_server_refusal(data)
    return SaslMessage()


def _read_unknown(_: bytes) -> SaslMessage:
    return SaslMessage()
