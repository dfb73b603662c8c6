"""The client logs in to the built-in broker with every mechanism, and rejects an untrustworthy server."""

from __future__ import annotations

import pytest

from kproxy.broker.threaded import BrokerThread
from kproxy.client.connection import connect
from kproxy.client.login import ClientLogin, log_in
from kproxy.client.versions import fetch_versions
from kproxy.errors import UserError
from kproxy.proxy.address import parse_upstream
from tests.kproxy.broker.security.sasl_client import unsecured_token

TOKEN = unsecured_token({"sub": "alice", "exp": 4_000_000_000, "iat": 1})
BROKER_OPTIONS = {"sasl": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"), "users": {"al=i,ce": "sesame"}}


async def try_login(bootstrap: str, login: ClientLogin) -> None:
    connection = await connect(parse_upstream(bootstrap), 10)
    try:
        await log_in(connection, login, await fetch_versions(connection))
    finally:
        connection.close()


@pytest.mark.kproxy_broker(**BROKER_OPTIONS)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_logs_in_with_a_password(kproxy_broker: BrokerThread, mechanism: str) -> None:
    await try_login(kproxy_broker.bootstrap, ClientLogin(mechanism, "al=i,ce", "sesame"))
    with pytest.raises(UserError, match="the broker rejects the login: Authentication failed") as raised:
        await try_login(kproxy_broker.bootstrap, ClientLogin(mechanism, "al=i,ce", "sesame-wrong"))
    assert "sesame" not in str(raised.value)


@pytest.mark.kproxy_broker(**BROKER_OPTIONS)
async def test_logs_in_with_a_token(kproxy_broker: BrokerThread) -> None:
    await try_login(kproxy_broker.bootstrap, ClientLogin("OAUTHBEARER", "", TOKEN))
    with pytest.raises(UserError, match="the broker rejects the login") as raised:
        await try_login(kproxy_broker.bootstrap, ClientLogin("OAUTHBEARER", "", TOKEN[:-20] + "."))
    assert TOKEN[:20] not in str(raised.value)


@pytest.mark.kproxy_broker(sasl=("PLAIN",), users={"alice": "sesame"})
async def test_reports_a_mechanism_that_the_broker_lacks(kproxy_broker: BrokerThread) -> None:
    with pytest.raises(UserError, match="does not accept SCRAM-SHA-256: it offers PLAIN; pass --sasl-mechanism"):
        await try_login(kproxy_broker.bootstrap, ClientLogin("SCRAM-SHA-256", "alice", "sesame"))


@pytest.mark.parametrize(
    ("first", "final", "sentence"),
    [
        ("r=other,s=AAAA,i=4096", "", "does not contain the nonce"),
        ("r={nonce}x,s=AAAA", "", "does not contain the nonce, a salt and an iteration count"),
        ("r={nonce}x,s=AAAA,i=99999999999", "", "asks for 99999999999 iterations"),
        ("r={nonce}x,s=*,i=4096", "", "salt is not base64"),
        ("r={nonce}x,s=AAAA,i=4096", "v=AAAA", "does not prove that it knows the password"),
        ("r={nonce}x,s=AAAA,i=4096", "\xff", "does not prove that it knows the password"),
    ],
)
def test_rejects_an_untrustworthy_broker(first: str, final: str, sentence: str) -> None:
    steps = ClientLogin("SCRAM-SHA-256", "alice", "sesame").steps()
    nonce = next(steps).decode().partition("r=")[2]
    with pytest.raises(Exception, match=sentence):  # noqa: PT012  # either send may raise
        steps.send(first.format(nonce=nonce).encode())
        steps.send(final.encode())


def test_repr_does_not_show_the_password() -> None:
    login = ClientLogin("PLAIN", "alice", "sesame")
    assert "sesame" not in repr(login) + str(login)
