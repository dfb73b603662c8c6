from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kproxy.broker import Broker
from kproxy.broker.errors import Error
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.security.sasl_client import (
    ScramClient,
    bearer_message,
    login_plain,
    login_scram,
    unsecured_token,
)
from tests.kproxy.broker.socket_client import SocketClient, broker_client

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
USERS = {"alice": "secret", "bob": "secret"}


@asynccontextmanager
async def secured_client(reports: list[str] | None = None, **configs: str) -> AsyncIterator[SocketClient]:
    """Yield a client of a broker with all mechanisms and a fake clock."""
    async with broker_client(reports=reports, sasl=MECHANISMS, users=USERS, configs=configs) as client:
        client.broker.cluster.clock = FakeClock()
        yield client


def advance(broker: Broker, ms: int) -> None:
    assert isinstance(broker.cluster.clock, FakeClock)
    broker.cluster.clock.advance(ms)


async def is_closed(client: SocketClient) -> bool:
    reader, _ = await client.streams(1)
    async with asyncio.timeout(5):
        return await reader.read(1) == b""


async def request_metadata(client: SocketClient) -> Any:
    return await client("Metadata", 9, {"topics": []})


@pytest.mark.parametrize("version", range(3))
async def test_client_is_served_after_login(version: int) -> None:
    async with secured_client() as client:
        assert (await client("ApiVersions", 0))["error_code"] == 0
        body = await login_plain(client, version=version)
        assert (body["error_code"], body["auth_bytes"]) == (0, b"")
        assert len((await request_metadata(client))["brokers"]) == 1


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_scram_authenticates_the_broker_to_the_client(mechanism: str) -> None:
    scram = ScramClient(mechanism, "alice", "secret")
    async with secured_client() as client:
        body = await login_scram(client, mechanism, scram)
        assert (body["error_code"], body["auth_bytes"]) == (0, scram.expected)
        await request_metadata(client)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_wrong_password_is_reported_and_closes_the_connection(mechanism: str) -> None:
    async with secured_client() as client:
        body = await login_scram(client, mechanism, ScramClient(mechanism, "alice", "wrong"))
        assert body["error_code"] == Error.SASL_AUTHENTICATION_FAILED
        message = (
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
        )
        assert body["error_message"] == message
        assert await is_closed(client)


async def test_request_before_login_closes_the_connection() -> None:
    reports: list[str] = []
    async with secured_client(reports) as client:
        await client.send("Metadata", 9, {"topics": []})
        assert await is_closed(client)
    assert reports == ["/127.0.0.1: Metadata v9 before the login that this listener requires; connection closed"]


async def test_frame_too_large_for_a_login_closes_the_connection() -> None:
    reports: list[str] = []
    async with secured_client(reports) as client:
        _, writer = await client.streams(1)
        writer.write((512 * 1024 + 1).to_bytes(4, "big"))
        assert await is_closed(client)
    assert reports == ["/127.0.0.1: length prefix says 524289 bytes; connection closed"]


async def test_response_to_an_unsupported_mechanism_lists_the_supported_ones() -> None:
    async with secured_client() as client:
        body = await client("SaslHandshake", 1, {"mechanism": "GSSAPI"})
        assert body["error_code"] == Error.UNSUPPORTED_SASL_MECHANISM
        assert body["mechanisms"] == MECHANISMS
        assert await is_closed(client)


async def test_second_handshake_during_a_login_closes_the_connection() -> None:
    async with secured_client() as client:
        await client("SaslHandshake", 1, {"mechanism": "PLAIN"})
        body = await client("SaslHandshake", 1, {"mechanism": "PLAIN"})
        assert body["error_code"] == Error.ILLEGAL_SASL_STATE
        assert await is_closed(client)


async def test_authenticate_before_handshake_closes_the_connection() -> None:
    async with secured_client() as client:
        body = await client("SaslAuthenticate", 2, {"auth_bytes": b"\0alice\0secret"})
        assert body["error_code"] == Error.ILLEGAL_SASL_STATE
        assert await is_closed(client)


async def test_login_is_an_illegal_state_on_a_listener_without_sasl() -> None:
    async with broker_client() as client:
        body = await client("SaslHandshake", 1, {"mechanism": "PLAIN"})
        assert (body["error_code"], body["mechanisms"]) == (Error.ILLEGAL_SASL_STATE, [])
        assert (await client("SaslAuthenticate", 2, {"auth_bytes": b""}))["error_code"] == Error.ILLEGAL_SASL_STATE
        await request_metadata(client)


async def send_raw(client: SocketClient, message: bytes) -> bytes:
    await client.send_bytes(message)
    reader, _ = await client.streams(1)
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def test_sasl_messages_have_no_header_after_handshake_v0() -> None:
    scram = ScramClient("SCRAM-SHA-256", "alice", "secret")
    async with secured_client() as client:
        assert (await client("SaslHandshake", 0, {"mechanism": "SCRAM-SHA-256"}))["error_code"] == 0
        final = scram.final(await send_raw(client, scram.first))
        assert await send_raw(client, final) == scram.expected
        await request_metadata(client)


async def test_failed_login_without_headers_gets_no_response() -> None:
    reports: list[str] = []
    async with secured_client(reports) as client:
        await client("SaslHandshake", 0, {"mechanism": "PLAIN"})
        await client.send_bytes(b"\0alice\0wrong")
        assert await is_closed(client)
    assert reports == ["/127.0.0.1: Authentication failed: Invalid username or password; connection closed"]


async def test_session_does_not_expire_by_default() -> None:
    async with secured_client() as client:
        assert (await login_plain(client))["session_lifetime_ms"] == 0
        advance(client.broker, 10**9)
        await request_metadata(client)
        body = await client("SaslHandshake", 1, {"mechanism": "PLAIN"})
        assert (body["error_code"], body["mechanisms"]) == (Error.ILLEGAL_SASL_STATE, [])
        await request_metadata(client)


async def test_client_that_reauthenticates_in_time_stays_connected() -> None:
    async with secured_client(**{"connections.max.reauth.ms": "5000"}) as client:
        for _ in range(3):
            assert (await login_plain(client))["session_lifetime_ms"] == 5000
            advance(client.broker, 4000)
            await request_metadata(client)


async def test_expired_session_closes_the_connection() -> None:
    reports: list[str] = []
    async with secured_client(reports, **{"connections.max.reauth.ms": "5000"}) as client:
        await login_plain(client)
        advance(client.broker, 5001)
        await client.send("Metadata", 9, {"topics": []})
        assert await is_closed(client)
    assert reports == ["/127.0.0.1: Metadata v9 after the session expired; connection closed"]


async def test_client_may_reauthenticate_after_expiry() -> None:
    async with secured_client(**{"connections.max.reauth.ms": "5000"}) as client:
        await login_plain(client)
        advance(client.broker, 5001)
        await login_plain(client)
        await request_metadata(client)


async def test_reauthentication_is_limited_to_once_a_second() -> None:
    async with secured_client(**{"connections.max.reauth.ms": "5000"}) as client:
        await login_plain(client)
        await login_plain(client)
        advance(client.broker, 999)
        assert (await client("SaslHandshake", 1, {"mechanism": "PLAIN"}))["error_code"] == Error.ILLEGAL_SASL_STATE
        await request_metadata(client)
        advance(client.broker, 1)
        await login_plain(client)


async def test_other_requests_during_reauthentication_close_the_connection() -> None:
    reports: list[str] = []
    async with secured_client(reports, **{"connections.max.reauth.ms": "5000"}) as client:
        await login_plain(client)
        await client("SaslHandshake", 1, {"mechanism": "PLAIN"})
        await client.send("Metadata", 9, {"topics": []})
        assert await is_closed(client)
    assert len(reports) == 1


async def test_reauthentication_cannot_change_the_principal() -> None:
    async with secured_client(**{"connections.max.reauth.ms": "5000"}) as client:
        await login_plain(client)
        body = await login_plain(client, "bob")
        assert body["error_code"] == Error.SASL_AUTHENTICATION_FAILED
        assert body["error_message"] == "Cannot change principals during re-authentication from User.alice: User.bob"
        assert await is_closed(client)


async def test_reauthentication_cannot_change_the_mechanism() -> None:
    async with secured_client(**{"connections.max.reauth.ms": "5000"}) as client:
        await login_plain(client)
        body = await login_scram(client, "SCRAM-SHA-256", ScramClient("SCRAM-SHA-256", "alice", "secret"))
        message = (
            "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism"
        )
        assert body["error_message"] == f"{message} 'PLAIN'"
        assert await is_closed(client)


async def test_session_does_not_outlive_its_token() -> None:
    async with secured_client(**{"connections.max.reauth.ms": "9000"}) as client:
        await client("SaslHandshake", 1, {"mechanism": "OAUTHBEARER"})
        token = unsecured_token({"sub": "alice", "exp": client.broker.cluster.clock.now() / 1000 + 5})
        body = await client("SaslAuthenticate", 2, {"auth_bytes": bearer_message(token)})
        assert (body["error_code"], body["session_lifetime_ms"]) == (0, 5000)


async def test_rejects_an_unknown_mechanism() -> None:
    with pytest.raises(ValueError, match="unknown SASL mechanism GSSAPI: use one of PLAIN, SCRAM-SHA-256"):
        async with Broker(sasl=("GSSAPI",)):
            raise AssertionError


def test_repr_of_the_options_hides_passwords() -> None:
    assert "secret" not in repr(Broker(users={"alice": "secret"}).options)
