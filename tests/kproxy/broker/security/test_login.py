from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kproxy.broker import Broker
from kproxy.broker.errors import Error
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.security.sasl_client import ScramClient, bearer, plain, scram, unsecured
from tests.kproxy.broker.socket_client import Asking, asked

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
USERS = {"alice": "secret", "bob": "secret"}


@asynccontextmanager
async def secured(said: list[str] | None = None, **configs: str) -> AsyncIterator[Asking]:
    """A broker with all mechanisms and a clock that stands still."""
    async with asked(said=said, sasl=MECHANISMS, users=USERS, configs=configs) as ask:
        ask.broker.cluster.clock = FakeClock()
        yield ask


def go_on(broker: Broker, ms: int) -> None:
    assert isinstance(broker.cluster.clock, FakeClock)
    broker.cluster.clock.go_on(ms)


async def is_closed(ask: Asking) -> bool:
    reader, _ = await ask.streams(1)
    async with asyncio.timeout(5):
        return await reader.read(1) == b""


async def metadata(ask: Asking) -> Any:
    return await ask("Metadata", 9, {"topics": []})


@pytest.mark.parametrize("version", range(3))
async def test_who_is_logged_in_is_answered(version: int) -> None:
    async with secured() as ask:
        assert (await ask("ApiVersions", 0))["error_code"] == 0
        body = await plain(ask, version=version)
        assert (body["error_code"], body["auth_bytes"]) == (0, b"")
        assert len((await metadata(ask))["brokers"]) == 1


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram_proves_that_the_broker_knows_the_password_too(mechanism: str) -> None:
    client = ScramClient(mechanism, "alice", "secret")
    async with secured() as ask:
        body = await scram(ask, mechanism, client)
        assert (body["error_code"], body["auth_bytes"]) == (0, client.expected)
        await metadata(ask)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_told_and_ends_the_connection(mechanism: str) -> None:
    async with secured() as ask:
        body = await scram(ask, mechanism, ScramClient(mechanism, "alice", "wrong"))
        assert body["error_code"] == Error.SASL_AUTHENTICATION_FAILED
        told = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
        assert body["error_message"] == told
        assert await is_closed(ask)


async def test_nobody_else_is_answered() -> None:
    said: list[str] = []
    async with secured(said) as ask:
        await ask.send("Metadata", 9, {"topics": []})
        assert await is_closed(ask)
    assert said == ["/127.0.0.1: Metadata v9 before the login that this listener requires; connection closed"]


async def test_a_frame_too_large_for_a_login_ends_the_connection() -> None:
    said: list[str] = []
    async with secured(said) as ask:
        _, writer = await ask.streams(1)
        writer.write((512 * 1024 + 1).to_bytes(4, "big"))
        assert await is_closed(ask)
    assert said == ["/127.0.0.1: length prefix says 524289 bytes; connection closed"]


async def test_a_mechanism_that_is_not_there_is_told_from_those_that_are() -> None:
    async with secured() as ask:
        body = await ask("SaslHandshake", 1, {"mechanism": "GSSAPI"})
        assert body["error_code"] == Error.UNSUPPORTED_SASL_MECHANISM
        assert body["mechanisms"] == MECHANISMS
        assert await is_closed(ask)


async def test_a_second_handshake_in_the_midst_of_a_login_ends_it() -> None:
    async with secured() as ask:
        await ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
        body = await ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
        assert body["error_code"] == Error.ILLEGAL_SASL_STATE
        assert await is_closed(ask)


async def test_a_message_before_the_handshake_ends_the_connection() -> None:
    async with secured() as ask:
        body = await ask("SaslAuthenticate", 2, {"auth_bytes": b"\0alice\0secret"})
        assert body["error_code"] == Error.ILLEGAL_SASL_STATE
        assert await is_closed(ask)


async def test_where_nobody_logs_in_a_login_is_out_of_place() -> None:
    async with asked() as ask:
        body = await ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
        assert (body["error_code"], body["mechanisms"]) == (Error.ILLEGAL_SASL_STATE, [])
        assert (await ask("SaslAuthenticate", 2, {"auth_bytes": b""}))["error_code"] == Error.ILLEGAL_SASL_STATE
        await metadata(ask)


async def send_raw(ask: Asking, message: bytes) -> bytes:
    await ask.send_bytes(message)
    reader, _ = await ask.streams(1)
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def test_after_the_old_handshake_messages_have_no_header() -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret")
    async with secured() as ask:
        assert (await ask("SaslHandshake", 0, {"mechanism": "SCRAM-SHA-256"}))["error_code"] == 0
        final = client.final(await send_raw(ask, client.first))
        assert await send_raw(ask, final) == client.expected
        await metadata(ask)


async def test_a_login_without_headers_that_fails_is_not_answered() -> None:
    said: list[str] = []
    async with secured(said) as ask:
        await ask("SaslHandshake", 0, {"mechanism": "PLAIN"})
        await ask.send_bytes(b"\0alice\0wrong")
        assert await is_closed(ask)
    assert said == ["/127.0.0.1: Authentication failed: Invalid username or password; connection closed"]


async def test_a_session_lasts_for_ever_unless_told() -> None:
    async with secured() as ask:
        assert (await plain(ask))["session_lifetime_ms"] == 0
        go_on(ask.broker, 10**9)
        await metadata(ask)
        body = await ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
        assert (body["error_code"], body["mechanisms"]) == (Error.ILLEGAL_SASL_STATE, [])
        await metadata(ask)


async def test_who_logs_in_again_in_time_stays() -> None:
    async with secured(**{"connections.max.reauth.ms": "5000"}) as ask:
        for _ in range(3):
            assert (await plain(ask))["session_lifetime_ms"] == 5000
            go_on(ask.broker, 4000)
            await metadata(ask)


async def test_the_session_is_over_for_who_does_not() -> None:
    said: list[str] = []
    async with secured(said, **{"connections.max.reauth.ms": "5000"}) as ask:
        await plain(ask)
        go_on(ask.broker, 5001)
        await ask.send("Metadata", 9, {"topics": []})
        assert await is_closed(ask)
    assert said == ["/127.0.0.1: Metadata v9 after the session expired; connection closed"]


async def test_even_then_a_client_may_log_in_again() -> None:
    async with secured(**{"connections.max.reauth.ms": "5000"}) as ask:
        await plain(ask)
        go_on(ask.broker, 5001)
        await plain(ask)
        await metadata(ask)


async def test_not_more_than_once_a_second() -> None:
    async with secured(**{"connections.max.reauth.ms": "5000"}) as ask:
        await plain(ask)
        await plain(ask)
        go_on(ask.broker, 999)
        assert (await ask("SaslHandshake", 1, {"mechanism": "PLAIN"}))["error_code"] == Error.ILLEGAL_SASL_STATE
        await metadata(ask)
        go_on(ask.broker, 1)
        await plain(ask)


async def test_nothing_else_is_answered_while_a_client_logs_in_again() -> None:
    said: list[str] = []
    async with secured(said, **{"connections.max.reauth.ms": "5000"}) as ask:
        await plain(ask)
        await ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
        await ask.send("Metadata", 9, {"topics": []})
        assert await is_closed(ask)
    assert len(said) == 1


async def test_nobody_becomes_somebody_else() -> None:
    async with secured(**{"connections.max.reauth.ms": "5000"}) as ask:
        await plain(ask)
        body = await plain(ask, "bob")
        assert body["error_code"] == Error.SASL_AUTHENTICATION_FAILED
        assert body["error_message"] == "Cannot change principals during re-authentication from User.alice: User.bob"
        assert await is_closed(ask)


async def test_nobody_changes_the_mechanism() -> None:
    async with secured(**{"connections.max.reauth.ms": "5000"}) as ask:
        await plain(ask)
        body = await scram(ask, "SCRAM-SHA-256", ScramClient("SCRAM-SHA-256", "alice", "secret"))
        told = "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism"
        assert body["error_message"] == f"{told} 'PLAIN'"
        assert await is_closed(ask)


async def test_a_session_does_not_outlast_its_token() -> None:
    async with secured(**{"connections.max.reauth.ms": "9000"}) as ask:
        await ask("SaslHandshake", 1, {"mechanism": "OAUTHBEARER"})
        token = unsecured({"sub": "alice", "exp": ask.broker.cluster.clock.now() / 1000 + 5})
        body = await ask("SaslAuthenticate", 2, {"auth_bytes": bearer(token)})
        assert (body["error_code"], body["session_lifetime_ms"]) == (0, 5000)


async def test_a_mechanism_that_nobody_has_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="unknown SASL mechanism GSSAPI: use one of PLAIN, SCRAM-SHA-256"):
        async with Broker(sasl=("GSSAPI",)):
            raise AssertionError


def test_options_do_not_show_passwords() -> None:
    assert "secret" not in repr(Broker(users={"alice": "secret"}).options)
