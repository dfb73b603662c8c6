"""Build the data files from two tiny releases of a made-up protocol."""

import json
from typing import Any

import pytest

from dissectors.schemas.importer.data import FILES, Release, SchemaData, merge_releases


def definition(**more: Any) -> tuple[str, str]:
    legs = {"name": "Legs", "type": "int32", "versions": "0+", "about": "How many."}
    source = {"apiKey": 18, "type": "request", "name": "CatRequest", "validVersions": "0-2", "flexibleVersions": "2+",
              "fields": [legs], **more}  # fmt: skip
    return "kafka-clients", "// A cat.\n" + json.dumps(source)


HEADER = (
    "kafka-clients",
    '{"type": "header", "name": "RequestHeader", "validVersions": "1", "flexibleVersions": "2+", "fields": []}',
)


def api(lowest: int, highest: int, **more: Any) -> dict[str, Any]:
    headers = {str(version): [2, 0] if version > 1 else [1, 0] for version in range(lowest, highest + 1)}
    return {"key": 18, "name": "Cat", "min": lowest, "max": highest, "stable": highest, "listeners": ["broker"],
            "headers": headers, **more}  # fmt: skip


def error(code: int, name: str, **more: bool) -> dict[str, Any]:
    return {"code": code, "name": name, "retriable": False, "invalid_metadata": False, **more}


OLD = Release(
    "3.9.1",
    [definition(), HEADER],
    {
        "apis": [api(0, 2, name="Feline")],
        "errors": [error(7, "GONE"), error(0, "NONE"), error(-1, "OOPS")],
        "enums": {"level": {"1": "HIGH", "-1": "ANY"}, "colour": {"0": "RED"}},
    },
)
NEW = Release(
    "4.4.0",
    [
        definition(validVersions="1-3", fields=[
            {"name": "Legs", "type": "int32", "versions": "1+"},
            {"name": "Tail", "type": "string", "versions": "3+", "nullableVersions": "3+", "flexibleVersions": "none",
             "default": "null", "ignorable": True},
        ]),
        HEADER,
        definition(type="response", name="CatResponse", validVersions="none"),
    ],
    {
        "apis": [api(1, 3, stable=2)],
        "errors": [error(0, "NONE"), error(-1, "UNKNOWN", retriable=True)],
        "enums": {"level": {"0": "LOW", "1": "TOP"}},
    },
)  # fmt: skip


def test_data_files_of_two_releases_have_the_expected_content() -> None:
    data, notes = merge_releases([OLD, NEW])
    assert notes == []
    files = data.files()
    assert {name: content.decode() for name, content in files.items()} == {
        "messages.jsonl": '{"name":"RequestHeader","type":"header","component":"kafka-clients","versions":"1",'
        '"served":{"3.9.1":"1","4.4.0":"1"},"flexible":"2+","fields":[]}\n'
        '{"name":"CatRequest","type":"request","apiKey":18,"component":"kafka-clients","versions":"0-3",'
        '"served":{"3.9.1":"0-2","4.4.0":"1-3"},"flexible":"2+","fields":['
        '{"name":"Legs","type":"int32","versions":"0+"},'
        '{"name":"Tail","type":"string","versions":"3+","nullableVersions":"3+","flexibleVersions":"none",'
        '"default":null,"ignorable":true}]}\n',
        "apis.json": '[\n{"key":18,"name":"Cat","flexible":2,"releases":{'
        '"3.9.1":{"min":0,"max":2,"stable":2,"listeners":["broker"]},'
        '"4.4.0":{"min":1,"max":3,"stable":2,"listeners":["broker"]}},'
        '"aliases":{"3.9.1":"Feline"},"headers":{"2":[2,0],"3":[2,0]}}\n]\n',
        "errors.json": '[\n{"code":-1,"name":"UNKNOWN","retriable":true,"invalid_metadata":false},\n'
        '{"code":0,"name":"NONE","retriable":false,"invalid_metadata":false},\n'
        '{"code":7,"name":"GONE","retriable":false,"invalid_metadata":false}\n]\n',
        "enums.json": '{\n"colour":{"0":"RED"},\n"level":{"-1":"ANY","0":"LOW","1":"TOP"}\n}\n',
        "kips.json": "{\n\n}\n",
        "codes.py": files["codes.py"].decode(),
    }
    assert files["codes.py"].endswith(b"    CAT = 18\n")
    assert b"(IntEnum):" in files["codes.py"]
    assert b"\n    UNKNOWN = -1\n    NONE = 0\n    GONE = 7\n" in files["codes.py"]


def test_written_files_are_read_back_unchanged() -> None:
    data, _ = merge_releases([OLD, NEW])
    files = data.files()
    assert tuple(files) == FILES
    assert SchemaData.parse(files) == data
    assert SchemaData.parse(files).files() == files


def test_field_ranges_that_end_early_keep_their_end() -> None:
    legs = {"name": "Legs", "type": "int32", "versions": "0-1", "nullableVersions": "1"}
    fields = [{"name": "Cats", "type": "[]Cat", "versions": "0+", "fields": [legs]}]
    data, _ = merge_releases([Release("4.4.0", [definition(fields=fields)], OLD.facts)])
    assert data.messages["CatRequest"]["fields"] == fields


def test_message_defined_twice_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"4\.4\.0 defines CatRequest twice"):
        merge_releases([Release("4.4.0", [definition(), definition()], OLD.facts)])


def test_versions_with_a_gap_are_rejected() -> None:
    newer = Release("4.4.0", [definition(validVersions="4-5")], NEW.facts)
    with pytest.raises(ValueError, match=r"CatRequest have a hole: \[0, 1, 2, 4, 5\]"):
        merge_releases([OLD, newer])


@pytest.mark.parametrize("text", ["{", "{}", '{"validVersions": "3-1"}'])
def test_unreadable_definition_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"a definition in kafka-raft 4\.4\.0 cannot be read: "):
        merge_releases([Release("4.4.0", [("kafka-raft", text)], OLD.facts)])
