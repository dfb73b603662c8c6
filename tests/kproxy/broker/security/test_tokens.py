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
from tests.kproxy.broker.memory import Memory
from tests.kproxy.broker.security.sasl_client import ScramClient, plain, scram
from tests.kproxy.broker.socket_client import Asking, asked

DAY = 86_400_000
ALICE, BOB = ({"principal_type": "User", "principal_name": name} for name in ("alice", "bob"))


@asynccontextmanager
async def logged_in(**options: Any) -> AsyncIterator[Asking]:
    """Alice, at a broker that has tokens and a clock that stands still."""
    users = {"alice": "secret", "bob": "secret"}
    configs = {"delegation.token.secret.key": "key"}
    async with asked(sasl=["PLAIN", "SCRAM-SHA-256"], users=users, **{"configs": configs, **options}) as ask:
        ask.broker.cluster.clock = FakeClock()
        await plain(ask)
        yield ask


@asynccontextmanager
async def as_bob(ask: Asking) -> AsyncIterator[Asking]:
    bob = ask.another()
    await plain(bob, "bob")
    yield bob
    await bob.hang_up()


def go_on(ask: Asking, ms: int) -> None:
    assert isinstance(ask.broker.cluster.clock, FakeClock)
    ask.broker.cluster.clock.go_on(ms)


async def create(ask: Asking, version: int = 3, *, renewers: Any = (), lifetime_ms: int = -1) -> Mapping[str, Any]:
    fields: dict[str, Any] = {"renewers": renewers, "max_lifetime_ms": lifetime_ms}
    if version >= 3:
        fields |= {"owner_principal_type": None, "owner_principal_name": None}
    return dict(await ask("CreateDelegationToken", version, fields))


async def renew(ask: Asking, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    body = await ask("RenewDelegationToken", 2, {"hmac": hmac, "renew_period_ms": period_ms})
    return body["error_code"], body["expiry_timestamp_ms"]


async def expire(ask: Asking, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    body = await ask("ExpireDelegationToken", 2, {"hmac": hmac, "expiry_time_period_ms": period_ms})
    return body["error_code"], body["expiry_timestamp_ms"]


async def shown(ask: Asking, owners: Any = None) -> list[str]:
    body = await ask("DescribeDelegationToken", 3, {"owners": owners})
    assert body["error_code"] == 0
    return [token["token_id"] for token in body["tokens"]]


@pytest.mark.parametrize("version", range(4))
async def test_a_token_is_for_who_asks_and_lives_as_long_as_the_brokers_allow(version: int) -> None:
    async with logged_in() as ask:
        body = await create(ask, version)
        now = ask.broker.cluster.clock.now()
    assert (body["error_code"], body["principal_type"], body["principal_name"]) == (0, "User", "alice")
    assert body["issue_timestamp_ms"] == now
    assert (body["expiry_timestamp_ms"], body["max_timestamp_ms"]) == (now + DAY, now + 7 * DAY)
    assert len(body["hmac"]) == 64


async def test_who_has_a_token_is_its_owner_but_gets_no_more_tokens() -> None:
    async with logged_in() as ask:
        token = await create(ask)
        other = ask.another()
        password = base64.b64encode(token["hmac"]).decode()
        client = ScramClient("SCRAM-SHA-256", token["token_id"], password, ",tokenauth=true")
        body = await scram(other, "SCRAM-SHA-256", client)
        assert (body["error_code"], body["session_lifetime_ms"]) == (0, DAY)
        refused = await create(other)
        assert refused["error_code"] == Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (refused["principal_name"], refused["max_timestamp_ms"]) == ("alice", -1)
        await other.hang_up()


async def test_a_token_is_renewed_by_its_owner_and_its_renewers_up_to_its_end() -> None:
    async with logged_in() as ask, as_bob(ask) as bob:
        token = await create(ask, lifetime_ms=2 * DAY, renewers=[BOB])
        mine = await create(ask)
        start = ask.broker.cluster.clock.now()
        assert await renew(ask, token["hmac"], 1000) == (0, start + 1000)
        assert await renew(bob, token["hmac"]) == (0, start + DAY)
        go_on(ask, DAY)
        assert await renew(bob, token["hmac"], 2**63 - 1) == (0, start + 2 * DAY)
        assert (await renew(bob, mine["hmac"]))[0] == Error.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (await renew(ask, b"nothing"))[0] == Error.DELEGATION_TOKEN_NOT_FOUND
        go_on(ask, DAY + 1)
        assert (await renew(ask, token["hmac"]))[0] == Error.DELEGATION_TOKEN_EXPIRED


async def test_a_token_ends_at_once_or_later() -> None:
    async with logged_in() as ask, as_bob(ask) as bob:
        token = await create(ask)
        now = ask.broker.cluster.clock.now()
        assert (await expire(bob, token["hmac"]))[0] == Error.DELEGATION_TOKEN_OWNER_MISMATCH
        assert await expire(ask, token["hmac"], 500) == (0, now + 500)
        go_on(ask, 501)
        assert (await expire(ask, token["hmac"], 500))[0] == Error.DELEGATION_TOKEN_EXPIRED
        assert await expire(ask, token["hmac"]) == (0, now + 501)
        assert (await expire(ask, token["hmac"]))[0] == Error.DELEGATION_TOKEN_NOT_FOUND


async def test_tokens_are_shown_to_whom_they_belong() -> None:
    async with logged_in(acls=True) as ask, as_bob(ask) as bob:
        first = (await create(ask))["token_id"]
        second = (await create(ask, renewers=[BOB]))["token_id"]
        assert await shown(ask) == [first, second]
        assert await shown(bob) == [second]
        assert await shown(ask, [ALICE]) == [first, second]
        assert await shown(ask, [BOB]) == [second]
        assert await shown(ask, []) == []


async def test_for_somebody_else_a_token_needs_leave() -> None:
    fields = {"renewers": [], "max_lifetime_ms": -1, "owner_principal_type": "User", "owner_principal_name": "bob"}
    async with logged_in(acls=True) as ask:
        body = await ask("CreateDelegationToken", 3, fields)
        assert body["error_code"] == Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    async with logged_in() as ask:
        body = await ask("CreateDelegationToken", 3, fields)
        assert (body["error_code"], body["principal_name"], body["token_requester_principal_name"]) == (
            0,
            "bob",
            "alice",
        )


async def test_only_users_renew() -> None:
    async with logged_in() as ask:
        body = await create(ask, renewers=[{"principal_type": "Group", "principal_name": "bob"}])
        assert body["error_code"] == Error.INVALID_PRINCIPAL_TYPE


async def test_without_a_secret_there_are_none() -> None:
    disabled = Error.DELEGATION_TOKEN_AUTH_DISABLED
    async with logged_in(configs={}) as ask:
        assert (await create(ask))["error_code"] == disabled
        assert (await renew(ask, b""))[0] == disabled
        assert (await expire(ask, b""))[0] == disabled
        assert (await ask("DescribeDelegationToken", 3, {"owners": None}))["error_code"] == disabled


async def test_who_is_not_logged_in_gets_none() -> None:
    refused = Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    async with asked(configs={"delegation.token.secret.key": "key"}) as ask:
        assert (await create(ask))["error_code"] == refused
        assert await renew(ask, b"") == (refused, -1)
        assert await expire(ask, b"") == (refused, -1)
        assert (await ask("DescribeDelegationToken", 3, {"owners": None}))["error_code"] == refused


def test_tokens_outlive_a_restart_and_are_forgotten_after_their_end() -> None:
    journal, clock = Memory(), FakeClock()
    options = BrokerOptions(configs={"delegation.token.secret.key": "key"})
    tokens = Cluster(options, {}, clock, journal).part(Tokens)
    token = tokens.create("User:alice", "User:alice", ["User:bob"], 1000)
    again = Cluster(options, {}, clock, journal).part(Tokens)
    assert again.usable(token.id) == token
    clock.go_on(3 * DAY)
    assert again.usable(token.id) is None
    again.create("User:alice", "User:alice", [], 1000)
    assert token.id not in journal.tables["delegation tokens"]
