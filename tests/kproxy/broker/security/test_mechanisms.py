from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Any

import pytest

from kproxy.broker.cluster import Cluster
from kproxy.broker.options import BrokerOptions
from kproxy.broker.security.credentials import Credential, Credentials
from kproxy.broker.security.exchange import Identity, LoginFailed, SaslExchange
from kproxy.broker.security.login import MECHANISMS
from kproxy.broker.security.tokens import Tokens
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.security.sasl_client import DIGESTS, ScramClient, bearer_message, unsecured_token

USERS = {"alice": "secret", "a,b=c": "secret"}


def begin_exchange(mechanism: str, clock: FakeClock | None = None, **configs: str) -> tuple[SaslExchange, Cluster]:
    options = BrokerOptions(sasl=tuple(MECHANISMS), users=USERS, configs=configs)
    cluster = Cluster(options, {}, clock or FakeClock())
    return MECHANISMS[mechanism](cluster), cluster


def login_error(sasl_exchange: SaslExchange, message: bytes) -> str | None:
    with pytest.raises(LoginFailed) as failed:
        sasl_exchange.step(message)
    assert sasl_exchange.identity is None
    return failed.value.message


def test_plain_accepts_name_and_password() -> None:
    plain, _ = begin_exchange("PLAIN")
    assert plain.step(b"\0alice\0secret") == b""
    assert plain.identity == Identity("alice")


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\xff\xfe", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_plain_reports_an_invalid_message(message: bytes, error: str) -> None:
    assert login_error(begin_exchange("PLAIN")[0], message) == error


def test_scram_matches_the_example_in_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the example in RFC 7677, section 3."""
    scram, cluster = begin_exchange("SCRAM-SHA-256")
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted_password = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    cluster.part(Credentials).put(
        "user", "SCRAM-SHA-256", Credential.from_salted_password("sha256", salt, salted_password, 4096)
    )
    monkeypatch.setattr(secrets, "token_urlsafe", lambda size: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = scram.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    final = scram.step(f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode())
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert scram.identity == Identity("user")


@pytest.mark.parametrize("mechanism", list(DIGESTS))
@pytest.mark.parametrize(("encoded", "name"), [("alice", "alice"), ("a=2Cb=3Dc", "a,b=c")])
def test_scram_accepts_the_proof_of_the_password(mechanism: str, encoded: str, name: str) -> None:
    scram, _ = begin_exchange(mechanism)
    client = ScramClient(mechanism, encoded, "secret")
    assert scram.step(client.final(scram.step(client.first))) == client.expected
    assert scram.identity == Identity(name)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"c=biws", b"c=eSws"), (b"clientnonce", b"othernonce!"), (b",p=", b",p=AAAA"), (b",p=", b",p=!"), (b"p=", b"q=")],
)
def test_scram_rejects_an_altered_final_message(old: bytes, new: bytes) -> None:
    scram, _ = begin_exchange("SCRAM-SHA-256")
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    assert login_error(scram, client.final(scram.step(client.first)).replace(old, new)) is None


def test_scram_rejects_the_proof_of_a_wrong_password() -> None:
    scram, _ = begin_exchange("SCRAM-SHA-512")
    client = ScramClient("SCRAM-SHA-512", "alice", "wrong")
    assert login_error(scram, client.final(scram.step(client.first))) is None


@pytest.mark.parametrize(
    "message", [b"", b"n,,n=nobody,r=x", b"y,,n=alice,r=x", b"n,,n=alice", b"n,,n=a=b,r=x", b"\xff" * 9, b"n,,r=x"]
)
def test_scram_rejects_an_invalid_first_message(message: bytes) -> None:
    assert login_error(begin_exchange("SCRAM-SHA-256")[0], message) is None


def test_scram_rejects_a_different_authorization_id() -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret", authorize="bob")
    message = login_error(begin_exchange("SCRAM-SHA-256")[0], client.first)
    assert message == "Authentication failed: Client requested an authorization id that is different from username"


def test_delegation_token_authenticates_its_owner_until_it_expires() -> None:
    clock = FakeClock()
    _, cluster = begin_exchange("SCRAM-SHA-256", clock, **{"delegation.token.secret.key": "key"})
    tokens = cluster.part(Tokens)
    token = tokens.create("User:alice", "User:alice", [], 1000)
    password = base64.b64encode(tokens.hmac_of(token)).decode()
    client = ScramClient("SCRAM-SHA-512", token.id, password, ",tokenauth=true")
    scram = MECHANISMS["SCRAM-SHA-512"](cluster)
    scram.step(client.final(scram.step(client.first)))
    assert scram.identity == Identity("alice", clock.now() + 1000, by_token=True)
    assert (
        login_error(MECHANISMS["SCRAM-SHA-512"](cluster), ScramClient("SCRAM-SHA-512", token.id, password).first)
        is None
    )
    clock.advance(1001)
    assert login_error(MECHANISMS["SCRAM-SHA-512"](cluster), client.first) is None


def claims(**changes: Any) -> dict[str, Any]:
    return {"sub": "alice", "iat": 1000, "exp": 1100, **changes}  # in seconds; the clock starts at 1000


def test_bearer_accepts_a_valid_token() -> None:
    oauth, _ = begin_exchange("OAUTHBEARER")
    assert oauth.step(bearer_message(unsecured_token(claims()))) == b""
    assert oauth.identity == Identity("alice", 1_100_000)


@pytest.mark.parametrize(
    "token",
    [
        unsecured_token(claims(exp=1000)),
        unsecured_token(claims(iat=1001)),
        unsecured_token(claims(exp="1100")),
        unsecured_token(claims(exp=True)),
        unsecured_token(claims(exp=float("inf"))),
        unsecured_token(claims(sub=" ")),
        unsecured_token({"sub": "alice"}),
        unsecured_token({"exp": 1100}),
        unsecured_token(claims(), algorithm="HS256"),
        unsecured_token(claims()) + "c2lnbmVk",
        "a.b",
        "W10.W10.",
        "AAAA.AAAA.",
    ],
)
def test_bearer_rejects_an_invalid_token_after_the_client_acknowledges_the_error(token: str) -> None:
    oauth, _ = begin_exchange("OAUTHBEARER")
    assert oauth.step(bearer_message(token)) == b'{"status":"invalid_token"}'
    assert login_error(oauth, b"\x01") == '{"status":"invalid_token"}'


@pytest.mark.parametrize(
    "message", [b"", b"\x01", b"n,,\x01\x01", b"n,,\x01auth=Basic YQ==\x01\x01", b"n,,\x01a=b\x01\x01"]
)
def test_bearer_rejects_a_first_message_without_a_token(message: bytes) -> None:
    assert login_error(begin_exchange("OAUTHBEARER")[0], message) is None


def test_bearer_rejects_a_different_authorization_id() -> None:
    message = login_error(
        begin_exchange("OAUTHBEARER")[0], bearer_message(unsecured_token(claims())).replace(b"n,,", b"n,a=bob,")
    )
    assert message is not None
    assert "authorization id (bob) that is different from the token's principal name (alice)" in message
