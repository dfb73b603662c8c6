"""The broker emulating a Kafka release."""

from __future__ import annotations

import asyncio
import struct

import pytest

from dissectors import schemas
from dissectors.schemas.lines import line, lines
from kproxy.broker.errors import Error
from kproxy.broker.registry import served_apis
from tests.kproxy.broker.socket_client import broker_client
from tests.kproxy.frames import request

API_VERSIONS = 18
SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


@pytest.mark.parametrize("release", lines())
async def test_advertises_the_versions_and_features_of_the_release(release: str) -> None:
    release_line = line(release)
    async with broker_client(release=release) as client:
        for version in range(release_line.served[API_VERSIONS][1] + 1):
            body = await client("ApiVersions", version, SOFTWARE)
            advertised = {key["api_key"]: (key["min_version"], key["max_version"]) for key in body["api_keys"]}
            assert body["error_code"] == Error.NONE
            assert advertised == {
                key: versions for key, versions in release_line.advertised.items() if key in served_apis()
            }
            if version >= 3:
                features = release_line.features.items()
                assert {
                    feature["name"]: (feature["min_version"], feature["max_version"])
                    for feature in body.get("supported_features", [])
                } == {
                    name: (feature_.lowest, feature_.highest)
                    for name, feature_ in features
                    if feature_.lowest > 0 or version > 3
                }
                assert {
                    feature["name"]: feature["max_version_level"] for feature in body.get("finalized_features", [])
                } == {name: feature_.level for name, feature_ in features if feature_.level > 0}


@pytest.mark.parametrize(("release", "epoch"), [("2.6", -1), ("2.7", 0), ("3.2", 0), ("3.3", 1), ("4.4", 1)])
async def test_finalized_features_epoch_depends_on_the_release(release: str, epoch: int) -> None:
    async with broker_client(release=release) as client:
        assert (await client("ApiVersions", 3, SOFTWARE)).get("finalized_features_epoch", -1) == epoch


@pytest.mark.parametrize("release", lines())
async def test_response_to_an_unsupported_api_versions_version_depends_on_the_release(release: str) -> None:
    lowest, highest = line(release).served[API_VERSIONS]
    async with broker_client(release=release) as client:
        await client.send_bytes(struct.pack(">hhihB", API_VERSIONS, highest + 1, 1, -1, 0))
        body = await client.receive("ApiVersions", 0)
    expected = [{"api_key": API_VERSIONS, "min_version": lowest, "max_version": highest}] if highest >= 3 else []
    assert (body["error_code"], body["api_keys"]) == (Error.UNSUPPORTED_VERSION, expected)


@pytest.mark.parametrize("release", lines())
async def test_unserved_version_closes_the_connection(release: str) -> None:
    release_line = line(release)
    reports: list[str] = []
    async with broker_client(reports=reports, release=release) as client:
        for key in served_apis():
            api = schemas.api(key)
            assert api is not None
            lowest, highest = release_line.served.get(key, (0, -1))
            for version in {lowest - 1, highest + 1} & set(api.versions) if key != API_VERSIONS else ():
                reader, writer = await asyncio.open_connection("127.0.0.1", client.broker.ports[0])
                writer.write(request(api.name, version, {}))
                assert await reader.read() == b""
                writer.close()
                assert reports.pop() == f"/127.0.0.1: {api.name} v{version} is not served; connection closed"
    assert reports == []


@pytest.mark.parametrize(("release", "line_name"), [("2.8.1", "2.8"), ("0.10", "0.10.2")])
async def test_patch_release_maps_to_its_release_line(release: str, line_name: str) -> None:
    async with broker_client(release=release) as client:
        body = await client("ApiVersions", 0)
    assert [key["api_key"] for key in body["api_keys"]] == [
        key for key in line(line_name).advertised if key in served_apis()
    ]


async def test_rejects_an_unknown_release() -> None:
    with pytest.raises(ValueError, match=r"no Kafka release .5\.0. is known; those known are 0\.10\.0, "):
        async with broker_client(release="5.0"):
            pass
