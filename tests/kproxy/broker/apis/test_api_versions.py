from __future__ import annotations

import asyncio

import pytest

from dissectors import schemas
from kproxy.broker.errors import Error
from kproxy.broker.registry import served_apis
from tests.kproxy.broker.socket_client import broker_client


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_lists_the_served_apis(version: int) -> None:
    async with broker_client() as client:
        body = await client("ApiVersions", version, {"client_software_name": "test", "client_software_version": "1"})
    assert body["error_code"] == 0
    assert [key["api_key"] for key in body["api_keys"]] == sorted(served_apis())


async def test_unsupported_api_versions_version_gets_a_version_0_response() -> None:
    async with broker_client() as client:
        await client.send_bytes(bytes.fromhex("0012 0063 00000001 0001 61 00"))
        body = await client.receive("ApiVersions", 0)
    assert body["error_code"] == Error.UNSUPPORTED_VERSION
    assert [key["api_key"] for key in body["api_keys"]] == [18]


async def test_unknown_api_key_closes_the_connection() -> None:
    reports: list[str] = []
    async with broker_client(reports=reports) as client:
        await client.send_bytes(bytes.fromhex("270f 0000 00000001 0001 61"))
        with pytest.raises(asyncio.IncompleteReadError):
            await client.receive("ApiVersions", 0)
    assert reports == ["/127.0.0.1: unknown API key 9999; connection closed"]


def test_error_codes_and_names_match_kafka() -> None:
    assert {error.value: error.name for error in Error} == {
        code: schemas.error_name(code) for code in range(-1, max(Error) + 1)
    }
