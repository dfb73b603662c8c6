"""Release lines, compared with responses of real brokers and with published facts."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dissectors import schemas
from dissectors.schemas.lines import Feature, line, lines
from dissectors.wire.decode import decode
from dissectors.wire.layout import layout

LINES = (
    "0.10.0 0.10.1 0.10.2 0.11.0 1.0 1.1 2.0 2.1 2.2 2.3 2.4 2.5 2.6 2.7 2.8 "
    "3.0 3.1 3.2 3.3 3.4 3.5 3.6 3.7 3.8 3.9 4.0 4.1 4.2 4.3 4.4"
)


def real_brokers() -> Iterator[Any]:
    for row in Path(__file__).with_name("api_versions.txt").read_text().splitlines():
        if not row.startswith("#"):
            release, version, frame = row.split()
            yield pytest.param(release, int(version), bytes.fromhex(frame), id=release)


@pytest.mark.parametrize(("release", "version", "frame"), [*real_brokers()])
def test_line_advertises_the_versions_of_a_real_broker(release: str, version: int, frame: bytes) -> None:
    decoded = decode(layout("ApiVersionsResponse", version), frame, 8)
    assert (decoded.error, decoded.end) == (None, len(frame))
    release_line = line(release)
    assert release_line.advertised == {
        key["api_key"]: (key["min_version"], key["max_version"]) for key in decoded.values["api_keys"]
    }
    supported = {feature["name"]: feature for feature in decoded.values.get("supported_features", ())}
    finalized_levels = {
        feature["name"]: feature["max_version_level"] for feature in decoded.values.get("finalized_features", ())
    }
    assert release_line.features == {
        name: Feature(supported_range["min_version"], supported_range["max_version"], finalized_levels.get(name, 0))
        for name, supported_range in supported.items()
    }


def test_importing_the_module_reads_no_data() -> None:
    code = "import dissectors.schemas.lines as lines; print(lines._rows.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"


def test_every_line_since_0_10_0_is_known() -> None:
    assert lines() == tuple(LINES.split())


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("2.8", "2.8"),
        ("2.8.1", "2.8"),
        ("4.4.0", "4.4"),
        ("0.10", "0.10.2"),
        ("0.10.0.1", "0.10.0"),
        ("0.11", "0.11.0"),
    ],
)
def test_line_of_a_release_is_found(release: str, name: str) -> None:
    assert line(release).name == name


@pytest.mark.parametrize("release", ["", "4", "2.9", "0.9.0.1", "2.8-rc1", "2.8.1.1", "2.8.", ".2.8", "v2.8", "0.1"])
def test_unknown_release_is_rejected_with_the_known_ones(release: str) -> None:
    with pytest.raises(ValueError, match=r"those known are 0\.10\.0, .*, 4\.4$") as raised:
        line(release)
    assert str(raised.value).startswith(f"no Kafka release {release!r} is known; ")


@pytest.mark.parametrize(
    ("release", "key", "versions"),
    [
        ("0.10.0", 0, (0, 2)),  # KIP-31: message format 1
        ("0.10.0", 1, (0, 2)),
        ("0.10.1", 1, (0, 3)),  # KIP-74: max_bytes of a Fetch
        ("0.10.1", 2, (0, 1)),  # KIP-79: ListOffsets by time
        ("0.10.2", 9, (0, 2)),  # KIP-88: OffsetFetch of all partitions
        ("0.11.0", 0, (0, 3)),  # KIP-98: message format 2
        ("0.11.0", 22, (0, 0)),
        ("1.0", 36, (0, 0)),  # KIP-152
        ("1.1", 1, (0, 7)),  # KIP-227: fetch sessions
        ("2.1", 0, (0, 7)),  # KIP-110: zstd
        ("2.3", 11, (0, 5)),  # KIP-345: static members
        ("2.4", 18, (0, 3)),  # KIP-511
        ("3.1", 1, (0, 13)),  # KIP-516: topic ids in Fetch
        ("3.7", 68, (0, 0)),  # KIP-848
        ("3.9", 18, (0, 4)),  # KIP-1022
        ("4.0", 1, (4, 17)),  # KIP-896
    ],
)
def test_line_has_the_versions_announced_for_it(release: str, key: int, versions: tuple[int, int]) -> None:
    assert line(release).advertised[key] == versions


@pytest.mark.parametrize(("release", "key"), [("0.10.2", 22), ("0.11.0", 36), ("2.3", 46), ("3.3", 4), ("4.0", 78)])
def test_line_lacks_later_and_removed_apis(release: str, key: int) -> None:
    assert key not in line(release).advertised


@pytest.mark.parametrize("release", schemas.releases())
def test_line_agrees_with_the_message_definitions(release: str) -> None:
    telemetry = {71, 72}
    assert line(release).served == {
        api.key: (served.lowest, served.stable)
        for api in schemas.apis()
        if (served := api.releases.get(release))
        and "broker" in served.listeners
        and served.stable >= served.lowest
        and api.key not in telemetry
    }


@pytest.mark.parametrize("name", LINES.split())
def test_every_served_version_is_in_the_schemas(name: str) -> None:
    for key, (lowest, highest) in line(name).served.items():
        api = schemas.api(key)
        assert api is not None
        assert api.min_version <= lowest <= highest <= api.max_version, api.name


def test_only_kafka_4_advertises_versions_it_does_not_serve() -> None:
    for name in lines():
        advertised, served = line(name).advertised, line(name).served
        differing_keys = {key for key in advertised if advertised[key] != served[key]}
        assert differing_keys == ({0} if name.startswith("4.") else set())
        assert line(name).kraft == (name not in LINES[: LINES.index(" 3.3")].split())
    assert (line("4.0").advertised[0], line("4.0").served[0]) == ((0, 12), (3, 12))
