"""SASL messages: the examples in their RFCs, and mistakes of real clients."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.sasl import read_client, read_server
from dissectors.sasl.messages import (
    ClientName,
    GssapiKind,
    GssapiToken,
    OAuthBearerClientFirst,
    SaslMessage,
    ScramClientFinal,
    ScramClientFirst,
    ScramServerFirst,
    ServerRefusal,
)

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "EXTERNAL", "")
KERBEROS = bytes.fromhex("06092a864886f712010202")


def jwt(claims: dict[str, Any]) -> str:
    """Return an unsecured JSON Web Token."""
    parts = (base64.urlsafe_b64encode(json.dumps(section).encode()) for section in ({"alg": "none"}, claims))
    return ".".join((*(part.decode().rstrip("=") for part in parts), ""))


def bearer_message(token: str, header: str = "n,,", extensions: str = "") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01{extensions}\x01".encode()


def test_plain_message_gives_the_user_without_the_password() -> None:
    """RFC 4616, section 4."""
    assert read_client("PLAIN", 1, b"\0tim\0tanstaaftanstaaf") == ClientName(username="tim")
    assert read_client("PLAIN", 1, b"Ursel\0Kurt\0xipj3plmq") == ClientName(username="Kurt", authorization_id="Ursel")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"alice\0secret", "has 1 of the 2 NUL bytes that separate authorization id, user name and password"),
        (b"\0a\0b\0c", "has 3 of the 2 NUL bytes that separate authorization id, user name and password"),
        (b"", "has 0 of the 2 NUL bytes that separate authorization id, user name and password"),
        (b"\0\0secret", "has no user name"),
        (b"\0alice\0", "has no password"),
    ],
)
def test_malformed_plain_message_is_described(data: bytes, problem: str) -> None:
    assert read_client("PLAIN", 1, data).problem == problem


def test_scram_example_of_rfc_7677_is_read() -> None:
    """RFC 7677, section 3."""
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange = (
        read_client("SCRAM-SHA-256", 1, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"),
        read_server("SCRAM-SHA-256", 1, f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()),
        read_client("SCRAM-SHA-256", 2, f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()),
        read_server("SCRAM-SHA-256", 2, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="),
    )
    assert exchange == (
        ScramClientFirst(username="user", nonce="rOprNGfwEbeRWgbNEkqO"),
        ScramServerFirst(nonce=nonce, iterations=4096),
        ScramClientFinal(nonce=nonce),
        SaslMessage(),
    )
    assert "rOpr" not in repr(exchange)


def test_scram_names_are_unescaped_and_extensions_listed() -> None:
    message = read_client("SCRAM-SHA-512", 1, b"n,a=x=2Cy,n=a=2Cb=3Dc,r=abc,tokenauth=true,other=1")
    assert message == ScramClientFirst(
        username="a,b=c", authorization_id="x,y", nonce="abc", extensions=("tokenauth", "other"), by_token=True
    )


@pytest.mark.parametrize(("flag", "binding"), [("n", "n"), ("y", "y"), ("p=tls-unique", "p=tls-unique"), ("p=!", "p=")])
def test_scram_channel_binding_is_read(flag: str, binding: str) -> None:
    message = read_client("SCRAM-SHA-256", 1, f"{flag},,n=u,r=abc".encode())
    assert isinstance(message, ScramClientFirst)
    assert (message.channel_binding, message.problem) == (binding, None)


@pytest.mark.parametrize(
    ("number", "data", "problem"),
    [
        (1, b"n=u,r=abc", 'does not begin with a GS2 header ("n,,")'),
        (1, b"\0alice\0secret", 'does not begin with a GS2 header ("n,,")'),
        (1, b"n,,r=abc", "has no user name (n=)"),
        (1, b"n,,n=u", "has no nonce (r=)"),
        (2, b"r=abc,p=x", "has no channel binding (c=)"),
        (2, b"c=biws,r=abc", "has no proof (p=)"),
    ],
)
def test_malformed_scram_client_message_is_described(number: int, data: bytes, problem: str) -> None:
    assert read_client("SCRAM-SHA-256", number, data).problem == problem


@pytest.mark.parametrize(
    ("number", "data", "problem"),
    [
        (1, b"r=abc,s=QQ==", "has no iteration count (i=)"),
        (1, b"r=abc,i=4096", "has no salt (s=)"),
        (1, b"r=abc,s=QQ==,i=0", "has an iteration count that is not a number"),
        (2, b"", "has neither a signature (v=) nor an error (e=)"),
    ],
)
def test_malformed_scram_server_message_is_described(number: int, data: bytes, problem: str) -> None:
    assert read_server("SCRAM-SHA-256", number, data).problem == problem


@pytest.mark.parametrize(("data", "reason"), [(b"e=invalid-proof", "invalid-proof"), (b"e=My Secret", None)])
def test_scram_server_error_is_read(data: bytes, reason: str | None) -> None:
    assert read_server("SCRAM-SHA-256", 2, data) == ServerRefusal(reason=reason)


def test_bearer_token_claims_are_read() -> None:
    token = jwt({"sub": "alice", "exp": 1700000000, "iat": 1.5, "nbf": 2, "password": "hunter2"})
    message = read_client("OAUTHBEARER", 1, bearer_message(token, extensions="traceId=123\x01"))
    assert message == OAuthBearerClientFirst(
        username="alice", extensions=("traceId",), expires_at=1700000000, issued_at=1.5, not_before=2
    )


@pytest.mark.parametrize("token", ["opaque", "a.b.c", "a.b.c.d.e", jwt({"sub": 7, "exp": "soon"}), jwt({"exp": 1e400})])
def test_token_without_claims_has_no_user_name(token: str) -> None:
    assert read_client("OAUTHBEARER", 1, bearer_message(token)) == OAuthBearerClientFirst(is_opaque=token == "opaque")


def test_rfc_7628_example_is_parsed() -> None:
    """RFC 7628, section 4.1, with other key-value pairs and an authorization id."""
    data = bearer_message(
        "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==", "n,a=user@example.com,", "host=server\x01port=143\x01"
    )
    assert read_client("OAUTHBEARER", 1, data) == OAuthBearerClientFirst(
        authorization_id="user@example.com", extensions=("host", "port"), is_opaque=True
    )


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"auth=Bearer x\x01\x01", 'does not begin with a GS2 header ("n,,")'),
        (b"n,,\x01auth=Basic x\x01\x01", "has no bearer token (auth=Bearer)"),
        (b"n,,\x01auth=Bearer x\x01", "does not end with two bytes 01"),
    ],
)
def test_malformed_bearer_message_is_described(data: bytes, problem: str) -> None:
    assert read_client("OAUTHBEARER", 1, data).problem == problem


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"status":"invalid_token","scope":"kafka"}', "invalid_token"),
        (b'{"status":"%s"}' % jwt({"sub": "a"}).encode() * 2, None),
        (b'{"status":7}', None),
        (b"no JSON", None),
        (b"[" * 50000, None),
    ],
)
def test_refusal_of_a_bearer_token_has_a_status(data: bytes, reason: str | None) -> None:
    assert read_server("OAUTHBEARER", 1, data) == ServerRefusal(reason=reason)


def test_empty_response_to_a_bearer_token_is_not_a_refusal() -> None:
    assert read_server("OAUTHBEARER", 1, b"") == SaslMessage()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", GssapiKind.EMPTY),
        (b"\x60\x82\x02\x76" + KERBEROS + b"\x01\x00\x6e\x82", GssapiKind.INITIAL),
        (b"\x60\x40" + KERBEROS + b"\x02\x00\x6f", GssapiKind.REPLY),
        (b"\x60\x40" + KERBEROS + b"\x03\x00\x7e", GssapiKind.ERROR),
        (b"\x60\x40" + KERBEROS + b"\x02\x01", GssapiKind.WRAP),
        (bytes.fromhex("050404ff000c0000"), GssapiKind.WRAP),
        (b"\x60\x28\x06\x06\x2b\x06\x01\x05\x05\x02\xa0", GssapiKind.OTHER),  # SPNEGO
        (b"\x60", GssapiKind.OTHER),
    ],
)
def test_gssapi_tokens_are_recognised(data: bytes, kind: GssapiKind) -> None:
    assert read_client("GSSAPI", 1, data) == read_server("GSSAPI", 3, data) == GssapiToken(kind=kind)


@pytest.mark.slow
@given(st.sampled_from(MECHANISMS), st.integers(0, 4), st.binary(max_size=200) | st.text(max_size=80).map(str.encode))
def test_arbitrary_messages_never_raise(mechanism: str, number: int, data: bytes) -> None:
    assert isinstance(read_client(mechanism, number, data), SaslMessage)
    assert isinstance(read_server(mechanism, number, data), SaslMessage)


@given(st.text(alphabet="n=r,ai=s!x\x01Bearuth.ey\0", max_size=60))
def test_messages_that_resemble_the_grammars_never_raise(text: str) -> None:
    for mechanism in MECHANISMS:
        for number in (1, 2):
            read_client(mechanism, number, text.encode())
            read_server(mechanism, number, text.encode())
