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
    """Yield Alice's client of a broker with delegation tokens and a fake clock."""
    users = {"alice": "secret", "bob": "secret"}
    configs = {"delegation.token.secret.key": "key"}
    async with broker_client(sasl=["PLAIN", "SCRAM-SHA-256"], users=users, **{"configs": configs, **options}) as client:
        client.broker.cluster.clock = FakeClock()
        await login_plain(client)
        yield client


@asynccontextmanager
async def bob_client(client: SocketClient) -> AsyncIterator[SocketClient]:
    bob = client.second_client()
    await login_plain(bob, "bob")
    yield bob
    await bob.hang_up()


def advance(client: SocketClient, ms: int) -> None:
    assert isinstance(client.broker.cluster.clock, FakeClock)
    client.broker.cluster.clock.advance(ms)


async def create_token(
    client: SocketClient, version: int = 3, *, renewers: Any = (), lifetime_ms: int = -1
) -> Mapping[str, Any]:
    fields: dict[str, Any] = {"renewers": renewers, "max_lifetime_ms": lifetime_ms}
    if version >= 3:
        fields |= {"owner_principal_type": None, "owner_principal_name": None}
    return dict(await client("CreateDelegationToken", version, fields))


async def renew_token(client: SocketClient, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    body = await client("RenewDelegationToken", 2, {"hmac": hmac, "renew_period_ms": period_ms})
    return body["error_code"], body["expiry_timestamp_ms"]


async def expire_token(client: SocketClient, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    body = await client("ExpireDelegationToken", 2, {"hmac": hmac, "expiry_time_period_ms": period_ms})
    return body["error_code"], body["expiry_timestamp_ms"]


async def describe_token_ids(client: SocketClient, owners: Any = None) -> list[str]:
    body = await client("DescribeDelegationToken", 3, {"owners": owners})
    assert body["error_code"] == 0
    return [token["token_id"] for token in body["tokens"]]


@pytest.mark.parametrize("version", range(4))
async def test_token_belongs_to_its_requester_and_has_the_configured_lifetime(version: int) -> None:
    async with alice_client() as client:
        body = await create_token(client, version)
        now = client.broker.cluster.clock.now()
    assert (body["error_code"], body["principal_type"], body["principal_name"]) == (0, "User", "alice")
    assert body["issue_timestamp_ms"] == now
    assert (body["expiry_timestamp_ms"], body["max_timestamp_ms"]) == (now + DAY, now + 7 * DAY)
    assert len(body["hmac"]) == 64


async def test_token_authenticates_its_owner_but_cannot_create_tokens() -> None:
    async with alice_client() as client:
        token = await create_token(client)
        other = client.second_client()
        password = base64.b64encode(token["hmac"]).decode()
        scram = ScramClient("SCRAM-SHA-256", token["token_id"], password, ",tokenauth=true")
        body = await login_scram(other, "SCRAM-SHA-256", scram)
        assert (body["error_code"], body["session_lifetime_ms"]) == (0, DAY)
        refused = await create_token(other)
        assert refused["error_code"] == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (refused["principal_name"], refused["max_timestamp_ms"]) == ("alice", -1)
        await other.hang_up()


async def test_owner_and_renewers_can_renew_a_token_up_to_its_max_lifetime() -> None:
    async with alice_client() as client, bob_client(client) as bob:
        token = await create_token(client, lifetime_ms=2 * DAY, renewers=[BOB])
        own_token = await create_token(client)
        start = client.broker.cluster.clock.now()
        assert await renew_token(client, token["hmac"], 1000) == (0, start + 1000)
        assert await renew_token(bob, token["hmac"]) == (0, start + DAY)
        advance(client, DAY)
        assert await renew_token(bob, token["hmac"], 2**63 - 1) == (0, start + 2 * DAY)
        assert (await renew_token(bob, own_token["hmac"]))[0] == Error.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (await renew_token(client, b"nothing"))[0] == Error.DELEGATION_TOKEN_NOT_FOUND
        advance(client, DAY + 1)
        assert (await renew_token(client, token["hmac"]))[0] == Error.DELEGATION_TOKEN_EXPIRED


async def test_owner_can_expire_a_token_at_once_or_later() -> None:
    async with alice_client() as client, bob_client(client) as bob:
        token = await create_token(client)
        now = client.broker.cluster.clock.now()
        assert (await expire_token(bob, token["hmac"]))[0] == Error.DELEGATION_TOKEN_OWNER_MISMATCH
        assert await expire_token(client, token["hmac"], 500) == (0, now + 500)
        advance(client, 501)
        assert (await expire_token(client, token["hmac"], 500))[0] == Error.DELEGATION_TOKEN_EXPIRED
        assert await expire_token(client, token["hmac"]) == (0, now + 501)
        assert (await expire_token(client, token["hmac"]))[0] == Error.DELEGATION_TOKEN_NOT_FOUND


async def test_tokens_are_listed_for_owners_and_renewers() -> None:
    async with alice_client(acls=True) as client, bob_client(client) as bob:
        first = (await create_token(client))["token_id"]
        second = (await create_token(client, renewers=[BOB]))["token_id"]
        assert await describe_token_ids(client) == [first, second]
        assert await describe_token_ids(bob) == [second]
        assert await describe_token_ids(client, [ALICE]) == [first, second]
        assert await describe_token_ids(client, [BOB]) == [second]
        assert await describe_token_ids(client, []) == []


async def test_token_for_a_different_owner_requires_authorization() -> None:
    fields = {"renewers": [], "max_lifetime_ms": -1, "owner_principal_type": "User", "owner_principal_name": "bob"}
    async with alice_client(acls=True) as client:
        body = await client("CreateDelegationToken", 3, fields)
        assert body["error_code"] == Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    async with alice_client() as client:
        body = await client("CreateDelegationToken", 3, fields)
        assert (body["error_code"], body["principal_name"], body["token_requester_principal_name"]) == (
            0,
            "bob",
            "alice",
        )


async def test_renewers_must_be_users() -> None:
    async with alice_client() as client:
        body = await create_token(client, renewers=[{"principal_type": "Group", "principal_name": "bob"}])
        assert body["error_code"] == Error.INVALID_PRINCIPAL_TYPE


async def test_tokens_are_disabled_without_a_secret_key() -> None:
    disabled = Error.DELEGATION_TOKEN_AUTH_DISABLED
    async with alice_client(configs={}) as client:
        assert (await create_token(client))["error_code"] == disabled
        assert (await renew_token(client, b""))[0] == disabled
        assert (await expire_token(client, b""))[0] == disabled
        assert (await client("DescribeDelegationToken", 3, {"owners": None}))["error_code"] == disabled


async def test_tokens_require_a_login() -> None:
    refused = Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    async with broker_client(configs={"delegation.token.secret.key": "key"}) as client:
        assert (await create_token(client))["error_code"] == refused
        assert await renew_token(client, b"") == (refused, -1)
        assert await expire_token(client, b"") == (refused, -1)
        assert (await client("DescribeDelegationToken", 3, {"owners": None}))["error_code"] == refused


def test_tokens_survive_a_restart_and_are_removed_after_expiry() -> None:
    journal, clock = MemoryJournal(), FakeClock()
    options = BrokerOptions(configs={"delegation.token.secret.key": "key"})
    tokens = Cluster(options, {}, clock, journal).part(Tokens)
    token = tokens.create("User:alice", "User:alice", ["User:bob"], 1000)
    restored_tokens = Cluster(options, {}, clock, journal).part(Tokens)
    assert restored_tokens.find_usable(token.id) == token
    clock.advance(3 * DAY)
    assert restored_tokens.find_usable(token.id) is None
    restored_tokens.create("User:alice", "User:alice", [], 1000)
    assert token.id not in journal.tables["delegation tokens"]
