from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import Error
from kproxy.broker.options import BrokerOptions
from kproxy.broker.security.tokens import Tokens
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.memory import MemoryJournal
from tests.kproxy.broker.security.sasl_client import ScramClient, login_plain, login_scram
from tests.kproxy.broker.socket_client import SocketClient, broker_client

DAY = 86_400_000
ALICE, BOB = ({"principal_type": "User", "principal_name": name} for name in ("alice", "bob"))


@asynccontextmanager
async def alice_client(**options: Any) -> AsyncIterator[SocketClient]:
    """Alice's client of a broker with tokens and a fake clock."""
    users = {"alice": "secret", "bob": "secret"}
    configs = {"delegation.token.secret.key": "key"}
    async with broker_client(sasl=["PLAIN", "SCRAM-SHA-256"], users=users, **{"configs": configs, **options}) as ask:
        ask.broker.cluster.clock = FakeClock()
        await login_plain(ask)
        yield ask


@asynccontextmanager
async def bob_client(ask: SocketClient) -> AsyncIterator[SocketClient]:
    bob = ask.second_client()
    await login_plain(bob, "bob")
    yield bob
    await bob.hang_up()


def advance(ask: SocketClient, ms: int) -> None:
    assert isinstance(ask.broker.cluster.clock, FakeClock)
    ask.broker.cluster.clock.advance(ms)


async def create(
    ask: SocketClient, version: int = 3, *, renewers: Any = (), lifetime_ms: int = -1
) -> Mapping[str, Any]:
    fields: dict[str, Any] = {"renewers": renewers, "max_lifetime_ms": lifetime_ms}
    if version >= 3:
        fields |= {"owner_principal_type": None, "owner_principal_name": None}
    return dict(await ask("CreateDelegationToken", version, fields))


async def renew(ask: SocketClient, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    body = await ask("RenewDelegationToken", 2, {"hmac": hmac, "renew_period_ms": period_ms})
    return body["error_code"], body["expiry_timestamp_ms"]


async def expire(ask: SocketClient, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    body = await ask("ExpireDelegationToken", 2, {"hmac": hmac, "expiry_time_period_ms": period_ms})
    return body["error_code"], body["expiry_timestamp_ms"]


async def described_token_ids(ask: SocketClient, owners: Any = None) -> list[str]:
    body = await ask("DescribeDelegationToken", 3, {"owners": owners})
    assert body["error_code"] == 0
    return [token["token_id"] for token in body["tokens"]]


@pytest.mark.parametrize("version", range(4))
async def test_token_belongs_to_its_requester_and_has_the_configured_lifetime(version: int) -> None:
    async with alice_client() as ask:
        body = await create(ask, version)
        now = ask.broker.cluster.clock.now()
    assert (body["error_code"], body["principal_type"], body["principal_name"]) == (0, "User", "alice")
    assert body["issue_timestamp_ms"] == now
    assert (body["expiry_timestamp_ms"], body["max_timestamp_ms"]) == (now + DAY, now + 7 * DAY)
    assert len(body["hmac"]) == 64


async def test_token_authenticates_its_owner_but_cannot_create_tokens() -> None:
    async with alice_client() as ask:
        token = await create(ask)
        other = ask.second_client()
        password = base64.b64encode(token["hmac"]).decode()
        client = ScramClient("SCRAM-SHA-256", token["token_id"], password, ",tokenauth=true")
        body = await login_scram(other, "SCRAM-SHA-256", client)
        assert (body["error_code"], body["session_lifetime_ms"]) == (0, DAY)
        refused = await create(other)
        assert refused["error_code"] == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (refused["principal_name"], refused["max_timestamp_ms"]) == ("alice", -1)
        await other.hang_up()


async def test_owner_and_renewers_can_renew_a_token_up_to_its_max_lifetime() -> None:
    async with alice_client() as ask, bob_client(ask) as bob:
        token = await create(ask, lifetime_ms=2 * DAY, renewers=[BOB])
        own_token = await create(ask)
        start = ask.broker.cluster.clock.now()
        assert await renew(ask, token["hmac"], 1000) == (0, start + 1000)
        assert await renew(bob, token["hmac"]) == (0, start + DAY)
        advance(ask, DAY)
        assert await renew(bob, token["hmac"], 2**63 - 1) == (0, start + 2 * DAY)
        assert (await renew(bob, own_token["hmac"]))[0] == Error.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (await renew(ask, b"nothing"))[0] == Error.DELEGATION_TOKEN_NOT_FOUND
        advance(ask, DAY + 1)
        assert (await renew(ask, token["hmac"]))[0] == Error.DELEGATION_TOKEN_EXPIRED


async def test_owner_can_expire_a_token_at_once_or_later() -> None:
    async with alice_client() as ask, bob_client(ask) as bob:
        token = await create(ask)
        now = ask.broker.cluster.clock.now()
        assert (await expire(bob, token["hmac"]))[0] == Error.DELEGATION_TOKEN_OWNER_MISMATCH
        assert await expire(ask, token["hmac"], 500) == (0, now + 500)
        advance(ask, 501)
        assert (await expire(ask, token["hmac"], 500))[0] == Error.DELEGATION_TOKEN_EXPIRED
        assert await expire(ask, token["hmac"]) == (0, now + 501)
        assert (await expire(ask, token["hmac"]))[0] == Error.DELEGATION_TOKEN_NOT_FOUND


async def test_tokens_are_listed_for_owners_and_renewers() -> None:
    async with alice_client(acls=True) as ask, bob_client(ask) as bob:
        first = (await create(ask))["token_id"]
        second = (await create(ask, renewers=[BOB]))["token_id"]
        assert await described_token_ids(ask) == [first, second]
        assert await described_token_ids(bob) == [second]
        assert await described_token_ids(ask, [ALICE]) == [first, second]
        assert await described_token_ids(ask, [BOB]) == [second]
        assert await described_token_ids(ask, []) == []


async def test_token_for_a_different_owner_requires_authorization() -> None:
    fields = {"renewers": [], "max_lifetime_ms": -1, "owner_principal_type": "User", "owner_principal_name": "bob"}
    async with alice_client(acls=True) as ask:
        body = await ask("CreateDelegationToken", 3, fields)
        assert body["error_code"] == Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    async with alice_client() as ask:
        body = await ask("CreateDelegationToken", 3, fields)
        assert (body["error_code"], body["principal_name"], body["token_requester_principal_name"]) == (
            0,
            "bob",
            "alice",
        )


async def test_renewers_must_be_users() -> None:
    async with alice_client() as ask:
        body = await create(ask, renewers=[{"principal_type": "Group", "principal_name": "bob"}])
        assert body["error_code"] == Error.INVALID_PRINCIPAL_TYPE


async def test_tokens_are_disabled_without_a_secret_key() -> None:
    disabled = Error.DELEGATION_TOKEN_AUTH_DISABLED
    async with alice_client(configs={}) as ask:
        assert (await create(ask))["error_code"] == disabled
        assert (await renew(ask, b""))[0] == disabled
        assert (await expire(ask, b""))[0] == disabled
        assert (await ask("DescribeDelegationToken", 3, {"owners": None}))["error_code"] == disabled


async def test_tokens_require_a_login() -> None:
    refused = Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    async with broker_client(configs={"delegation.token.secret.key": "key"}) as ask:
        assert (await create(ask))["error_code"] == refused
        assert await renew(ask, b"") == (refused, -1)
        assert await expire(ask, b"") == (refused, -1)
        assert (await ask("DescribeDelegationToken", 3, {"owners": None}))["error_code"] == refused


def test_tokens_survive_a_restart_and_are_removed_after_expiry() -> None:
    journal, clock = MemoryJournal(), FakeClock()
    options = BrokerOptions(configs={"delegation.token.secret.key": "key"})
    tokens = Cluster(options, {}, clock, journal).part(Tokens)
    token = tokens.create("User:alice", "User:alice", ["User:bob"], 1000)
    restored = Cluster(options, {}, clock, journal).part(Tokens)
    assert restored.find_usable(token.id) == token
    clock.advance(3 * DAY)
    assert restored.find_usable(token.id) is None
    restored.create("User:alice", "User:alice", [], 1000)
    assert token.id not in journal.tables["delegation tokens"]
