from __future__ import annotations

import asyncio

import pytest

from dissectors import schemas
from kproxy.broker.errors import Error
from kproxy.broker.registry import served
from tests.kproxy.broker.socket_client import asked


@pytest.mark.parametrize("version", range(5))
async def test_says_what_is_served(version: int) -> None:
    async with asked() as ask:
        body = await ask("ApiVersions", version, {"client_software_name": "test", "client_software_version": "1"})
    assert body["error_code"] == 0
    assert [key["api_key"] for key in body["api_keys"]] == sorted(served())


async def test_a_version_from_the_future_is_answered_in_version_0() -> None:
    async with asked() as ask:
        await ask.send_bytes(bytes.fromhex("0012 0063 00000001 0001 61 00"))
        body = await ask.receive("ApiVersions", 0)
    assert body["error_code"] == Error.UNSUPPORTED_VERSION
    assert [key["api_key"] for key in body["api_keys"]] == [18]


async def test_an_api_that_nobody_knows_ends_the_connection() -> None:
    said: list[str] = []
    async with asked(said=said) as ask:
        await ask.send_bytes(bytes.fromhex("270f 0000 00000001 0001 61"))
        with pytest.raises(asyncio.IncompleteReadError):
            await ask.receive("ApiVersions", 0)
    assert said == ["/127.0.0.1: unknown API key 9999; connection closed"]


def test_the_errors_are_those_of_kafka() -> None:
    assert {error.value: error.name for error in Error} == {
        code: schemas.error_name(code) for code in range(-1, max(Error) + 1)
    }
