"""The broker as one Kafka release or another."""

from __future__ import annotations

import asyncio
import struct

import pytest

from dissectors import schemas
from dissectors.schemas.lines import line, lines
from kproxy.broker.errors import Error
from kproxy.broker.registry import served
from tests.kproxy.broker.socket_client import asked
from tests.kproxy.frames import request

API_VERSIONS = 18
SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


@pytest.mark.parametrize("release", lines())
async def test_says_what_the_release_said(release: str) -> None:
    known = line(release)
    async with asked(release=release) as ask:
        for version in range(known.served[API_VERSIONS][1] + 1):
            body = await ask("ApiVersions", version, SOFTWARE)
            said = {key["api_key"]: (key["min_version"], key["max_version"]) for key in body["api_keys"]}
            assert body["error_code"] == Error.NONE
            assert said == {key: versions for key, versions in known.advertised.items() if key in served()}
            if version >= 3:
                features = known.features.items()
                assert {
                    feature["name"]: (feature["min_version"], feature["max_version"])
                    for feature in body.get("supported_features", [])
                } == {name: (it.lowest, it.highest) for name, it in features if it.lowest > 0 or version > 3}
                assert {
                    feature["name"]: feature["max_version_level"] for feature in body.get("finalized_features", [])
                } == {name: it.level for name, it in features if it.level > 0}


@pytest.mark.parametrize(("release", "epoch"), [("2.6", -1), ("2.7", 0), ("3.2", 0), ("3.3", 1), ("4.4", 1)])
async def test_the_epoch_of_the_features(release: str, epoch: int) -> None:
    async with asked(release=release) as ask:
        assert (await ask("ApiVersions", 3, SOFTWARE)).get("finalized_features_epoch", -1) == epoch


@pytest.mark.parametrize("release", lines())
async def test_an_api_versions_that_the_release_did_not_know_is_answered_as_it_did(release: str) -> None:
    lowest, highest = line(release).served[API_VERSIONS]
    async with asked(release=release) as ask:
        await ask.send_bytes(struct.pack(">hhihB", API_VERSIONS, highest + 1, 1, -1, 0))
        body = await ask.receive("ApiVersions", 0)
    own = [{"api_key": API_VERSIONS, "min_version": lowest, "max_version": highest}] if highest >= 3 else []
    assert (body["error_code"], body["api_keys"]) == (Error.UNSUPPORTED_VERSION, own)


@pytest.mark.parametrize("release", lines())
async def test_a_version_beside_those_that_the_release_had_closes_the_connection(release: str) -> None:
    known = line(release)
    said: list[str] = []
    async with asked(said=said, release=release) as ask:
        for key in served():
            api = schemas.api(key)
            assert api is not None
            lowest, highest = known.served.get(key, (0, -1))
            for version in {lowest - 1, highest + 1} & set(api.versions) if key != API_VERSIONS else ():
                reader, writer = await asyncio.open_connection("127.0.0.1", ask.broker.ports[0])
                writer.write(request(api.name, version, {}))
                assert await reader.read() == b""
                writer.close()
                assert said.pop() == f"/127.0.0.1: {api.name} v{version} is not served; connection closed"
    assert said == []


@pytest.mark.parametrize(("release", "shown"), [("2.8.1", "2.8"), ("0.10", "0.10.2")])
async def test_a_release_is_one_of_its_line(release: str, shown: str) -> None:
    async with asked(release=release) as ask:
        body = await ask("ApiVersions", 0)
    assert [key["api_key"] for key in body["api_keys"]] == [key for key in line(shown).advertised if key in served()]


async def test_a_release_that_nobody_knows_is_said() -> None:
    with pytest.raises(ValueError, match=r"no Kafka release .5\.0. is known; those known are 0\.10\.0, "):
        async with asked(release="5.0"):
            pass
