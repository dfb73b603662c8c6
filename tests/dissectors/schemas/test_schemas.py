"""The shipped schemas load, are complete, and are parsed lazily."""

import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dissectors import schemas
from dissectors.schemas import ErrorCode, ServedVersions, VersionRange

PACKAGES = Path(schemas.__file__).parents[2]


def run_python(code: str, path: Path = PACKAGES) -> str:
    """Return the output of a Python that finds the packages only at `path`."""
    script = f"import sys; sys.path.insert(0, {str(path)!r})\n{code}"
    return subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True).stdout


def every_field(fields: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for field in fields:
        yield field
        yield from every_field(field.get("fields", ()))


def every_message() -> list[Mapping[str, Any]]:
    return [schemas.message(name) for name in schemas.message_names()]


def test_schemas_have_the_messages_of_both_releases() -> None:
    assert schemas.releases() == ("3.9.1", "4.4.0")
    assert Counter(message["type"] for message in every_message()) == {
        "header": 2, "request": 95, "response": 95, "data": 16, "metadata": 31,
        "coordinator-key": 25, "coordinator-value": 25,
    }  # fmt: skip


def test_schemas_have_95_apis_in_368_versions() -> None:
    assert len(schemas.apis()) == 95
    assert sum(len(api.versions) for api in schemas.apis()) == 368


def test_requests_and_responses_have_the_versions_of_their_api() -> None:
    for api in schemas.apis():
        for name in (schemas.request(api.key), schemas.response(api.key)):
            assert name is not None
            message = schemas.message(name, "kafka-clients")
            assert message["apiKey"] == api.key
            assert [*VersionRange.parse(message["versions"])] == [*api.versions]
            flexible = [version for version in api.versions if version in VersionRange.parse(message["flexible"])]
            assert flexible == [
                version_number
                for version_number in api.versions
                if api.flexible_from is not None and version_number >= api.flexible_from
            ]


def test_every_version_of_a_message_is_served_by_a_release() -> None:
    for message in every_message():
        if message["type"] != "coordinator-key":  # until 3.9 their version was the record's type
            served = {version for text in message["served"].values() for version in VersionRange.parse(text)}
            assert served == {*VersionRange.parse(message["versions"])}, message["name"]


def test_version_range_of_a_field_lies_within_that_of_its_struct() -> None:
    def check_fields(fields: Sequence[Mapping[str, Any]], allowed: set[int], struct_path: str) -> None:
        for field in fields:
            path = f"{struct_path}.{field['name']}"
            versions = {version for version in range(40) if version in VersionRange.parse(field["versions"])}
            field_versions = versions & allowed
            assert field_versions, path
            assert field_versions == versions or field["versions"].endswith("+"), path
            for key in ("nullableVersions", "taggedVersions"):
                assert {v for v in allowed if v in VersionRange.parse(field.get(key, "none"))} <= field_versions, path
            assert ("tag" in field) == ("taggedVersions" in field), path
            check_fields(field.get("fields", ()), field_versions, path)

    for message in every_message():
        check_fields(message["fields"], {*VersionRange.parse(message["versions"])}, message["name"])


def test_fields_have_known_types() -> None:
    numbers = {"int8", "int16", "uint16", "int32", "uint32", "int64", "float64"}
    primitives = {*numbers, "bool", "string", "uuid", "bytes", "records"}
    for message in every_message():
        for field in every_field(message["fields"]):
            assert (field["type"].removeprefix("[]") in primitives) == ("fields" not in field), field["name"]


def test_no_two_fields_share_a_tag() -> None:
    def check_fields(fields: Sequence[Mapping[str, Any]], version: int, message_name: str) -> None:
        tags = [f["tag"] for f in fields if version in VersionRange.parse(f.get("taggedVersions", "none"))]
        assert len(tags) == len({*tags}), f"{message_name} v{version}"
        for field in fields:
            check_fields(field.get("fields", ()), version, message_name)

    for message in every_message():
        for version in VersionRange.parse(message["versions"]):
            check_fields(message["fields"], version, message["name"])


def test_schemas_contain_only_known_facts() -> None:
    allowed = {"name", "type", "versions", "nullableVersions", "flexibleVersions", "taggedVersions", "tag", "default",
               "entityType", "mapKey", "ignorable", "zeroCopy", "fields"}  # fmt: skip
    assert {key for message in every_message() for field in every_field(message["fields"]) for key in field} == allowed


def test_message_has_the_definition_from_kafka() -> None:
    topic = schemas.message("ProduceRequest")["fields"][3]
    assert (topic["name"], topic["type"], topic["versions"]) == ("TopicData", "[]TopicProduceData", "0+")
    assert [(field["name"], field["versions"]) for field in topic["fields"]] == [
        ("Name", "0-12"), ("TopicId", "13+"), ("PartitionData", "0+")
    ]  # fmt: skip


def test_message_is_parsed_once() -> None:
    assert schemas.message("FetchRequest") is schemas.message("FetchRequest", "kafka-clients")


@pytest.mark.parametrize(("name", "component"), [("NoSuchRequest", None), ("FetchRequest", "kafka-streams")])
def test_unknown_message_raises_a_key_error(name: str, component: str | None) -> None:
    with pytest.raises(KeyError, match=name):
        schemas.message(name, component)


def test_api_has_the_versions_of_each_release() -> None:
    produce = schemas.api(0)
    assert produce is not None
    assert produce is schemas.api_by_name("Produce")
    assert (produce.min_version, produce.max_version, produce.flexible_from) == (0, 13, 9)
    assert produce.releases["4.4.0"] == ServedVersions(3, 13, 13, ("broker",))
    assert produce.releases["3.9.1"].listeners == ("zk_broker", "broker")


def test_removed_api_is_missing_in_the_newer_release() -> None:
    shutdown = schemas.api_by_name("ControlledShutdown")
    assert shutdown is not None
    assert [*shutdown.releases] == ["3.9.1"]


def test_api_has_its_older_name_as_alias() -> None:
    api = schemas.api_by_name("ListConfigResources")
    assert api is not None
    assert api.aliases == {"3.9.1": "ListClientMetricsResources"}


def test_unstable_versions_are_distinguished() -> None:
    init, heartbeat = schemas.api_by_name("InitProducerId"), schemas.api_by_name("ShareGroupHeartbeat")
    assert init is not None
    assert heartbeat is not None
    assert (init.releases["4.4.0"].highest, init.releases["4.4.0"].stable) == (6, 5)
    assert heartbeat.releases["3.9.1"].stable == -1


def test_lookup_of_an_unknown_api_returns_none() -> None:
    assert schemas.api(32767) is None
    assert schemas.api_by_name("produce") is None
    assert schemas.request(32767) is None
    assert schemas.response(-1) is None


@pytest.mark.parametrize(
    ("api", "version", "headers"),
    [
        ("Produce", 8, (1, 0)),
        ("Produce", 9, (2, 1)),
        ("ApiVersions", 2, (1, 0)),
        ("ApiVersions", 3, (2, 0)),
        ("ApiVersions", 5, (2, 0)),
        ("ControlledShutdown", 0, (0, 0)),
        ("ControlledShutdown", 1, (1, 0)),
        ("ControlledShutdown", 3, (2, 1)),
        ("SaslHandshake", 1, (1, 0)),
    ],
)
def test_header_versions_follow_flexibility_with_exceptions(api: str, version: int, headers: tuple[int, int]) -> None:
    api_entry = schemas.api_by_name(api)
    assert api_entry is not None
    assert schemas.header_versions(api_entry.key, version) == headers


def test_header_versions_of_an_unknown_api_raise_a_key_error() -> None:
    with pytest.raises(KeyError):
        schemas.header_versions(32767, 0)


def test_error_codes_have_names_and_retriability() -> None:
    assert schemas.error(3) == ErrorCode(3, "UNKNOWN_TOPIC_OR_PARTITION", retriable=True, invalid_metadata=True)
    assert schemas.error_name(-1) == "UNKNOWN_SERVER_ERROR"
    assert schemas.error_name(0) == "NONE"
    assert schemas.error(32767) is None
    assert schemas.error_name(32767) is None


def test_enums_map_values_to_names() -> None:
    assert schemas.enum("isolation_level") == {0: "READ_UNCOMMITTED", 1: "READ_COMMITTED"}
    assert schemas.enum("list_offsets_timestamp")[-2] == "EARLIEST_TIMESTAMP"
    with pytest.raises(KeyError):
        schemas.enum("no_such_table")


def test_kraft_records_are_found_by_key_and_component() -> None:
    assert schemas.kraft_record(2) == "TopicRecord"
    assert schemas.kraft_record(2, "kafka-storage") == "RemotePartitionDeleteMetadataRecord"
    assert schemas.kraft_record(999) is None


def test_coordinator_records_are_found_by_component_and_type() -> None:
    record_names = schemas.coordinator_record("kafka-group-coordinator", 2)
    assert record_names == ("GroupMetadataKey", "GroupMetadataValue")
    assert schemas.coordinator_record("kafka-share-coordinator", 0) == ("ShareSnapshotKey", "ShareSnapshotValue")
    assert schemas.coordinator_record("kafka-group-coordinator", 9) is None


def test_every_coordinator_key_has_a_value() -> None:
    for message in every_message():
        if message["type"] == "coordinator-key":
            names = message["name"], message["name"].removesuffix("Key") + "Value"
            assert schemas.coordinator_record(message["component"], message["apiKey"]) == names


def test_data_is_read_lazily_line_by_line() -> None:
    code = """
import json, pkgutil
read, parsed = [], []
get_data, loads = pkgutil.get_data, json.loads
pkgutil.get_data = lambda package, file: read.append(file) or get_data(package, file)
json.loads = lambda text: parsed.append(text) or loads(text)
import dissectors, dissectors.schemas as schemas
print(read, len(parsed))
schemas.message("HeartbeatRequest")
print(read, len(parsed))
"""
    assert run_python(code).splitlines() == ["[] 0", "['messages.jsonl'] 1"]


def test_schemas_can_be_read_from_a_zip(tmp_path: Path) -> None:
    archive = tmp_path / "kproxy.zip"
    with zipfile.ZipFile(archive, "w") as zip_file:
        for path in (PACKAGES / "dissectors").rglob("*"):
            if path.suffix in {".py", ".json", ".jsonl"}:
                zip_file.write(path, path.relative_to(PACKAGES))
    code = "from dissectors import schemas; print(schemas.__file__, schemas.message('FetchRequest')['apiKey'])"
    assert run_python(code, archive).split() == [f"{archive}/dissectors/schemas/__init__.py", "1"]
