"""Schemas are learned from records in the topic `_schemas`."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from dissectors.values import Schema, SchemaKey, ValueContext, decode, schema_formats
from kproxy.registry.observed_schemas import ObservedSchemas

MONEY = '{"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "int"}]}'


def observe(schemas: ObservedSchemas, subject: str, version: int, id_: int, text: str, **more: Any) -> None:
    """Pass on a record like those written by Confluent's registry."""
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": id_, "schema": text, "deleted": False, **more}
    schemas.observe(json.dumps(key).encode(), json.dumps(value).encode())


def look_up(schemas: ObservedSchemas, key_kind: str, value: int | str) -> Schema | str | None:
    key = SchemaKey(key_kind, value)
    return schemas.lookup([key]).get(key)


def test_schemas_are_found_by_id_guid_and_subject_with_references() -> None:
    schemas = ObservedSchemas()
    reference = [{"name": "Money", "subject": "money", "version": 1}]
    observe(schemas, "orders-value", 1, 7, '["null", "Money"]', references=reference, guid="g")
    observe(schemas, "money", 1, 8, MONEY)
    observe(schemas, "orders-value", 2, 9, '"int"', deleted=True)
    for key_kind, value in (("id", 7), ("guid", "g"), ("subject", "orders-value")):
        assert isinstance(schema := look_up(schemas, key_kind, value), Schema)
        assert (schema.type, schema.text, schema.subject) == ("AVRO", '["null", "Money"]', "orders-value")
    context = ValueContext("orders", schemas=schemas.lookup([SchemaKey("id", 7)]))
    assert decode(b"\0\0\0\0\x07\x02\x0a", context).data == {"cents": 5}
    assert isinstance(look_up(schemas, "id", 9), Schema), "records with a deleted schema are still in topics"
    assert look_up(schemas, "id", 1) is None


def test_id_yields_its_first_subject_and_subject_its_last_version() -> None:
    schemas = ObservedSchemas()
    for subject, version, id_ in (("a", 2, 7), ("b", 1, 7), ("a", 1, 6)):
        observe(schemas, subject, version, id_, f'"{id_}"')
    assert isinstance(by_id := look_up(schemas, "id", 7), Schema)
    assert isinstance(by_subject := look_up(schemas, "subject", "a"), Schema)
    assert (by_id.subject, by_subject.text) == ("a", '"7"')


def test_later_record_replaces_an_earlier_one() -> None:
    schemas = ObservedSchemas()
    observe(schemas, "s", 1, 7, '"int"')
    assert isinstance(look_up(schemas, "id", 7), Schema)
    observe(schemas, "s", 1, 7, '"string"')
    assert isinstance(schema := look_up(schemas, "id", 7), Schema)
    assert schema.text == '"string"'


def test_only_the_most_recent_thousand_schemas_are_kept() -> None:
    schemas = ObservedSchemas()
    for id_ in range(1, 1002):
        observe(schemas, f"s{id_}", 1, id_, '"int"')
    observe(schemas, "huge", 1, 5000, '"int"' + " " * (1 << 20))
    assert look_up(schemas, "id", 1) is None
    assert look_up(schemas, "id", 5000) is None
    assert look_up(schemas, "id", 2) is not None
    assert look_up(schemas, "id", 1001) is not None


def test_circular_and_missing_references_are_tolerated() -> None:
    schemas = ObservedSchemas()
    references = [{"name": "x", "subject": "a", "version": 1}, {"name": "y", "subject": "gone", "version": 1}]
    observe(schemas, "a", 1, 1, '"int"', references=references)
    assert isinstance(schema := look_up(schemas, "id", 1), Schema)
    assert schema.references == {"x": schema}


def test_missing_package_is_reported_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(schema_formats._FORMATS, "JSON", raising=False)
    monkeypatch.setitem(sys.modules, "dissectors.values.json_schema", None)
    schemas = ObservedSchemas()
    observe(schemas, "s", 1, 7, "{}", schemaType="JSON")
    assert str(look_up(schemas, "id", 7)).startswith("its schema was seen in _schemas, but needs the package ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", b""),
        (b"\xff", b"{}"),
        (b"[" * 100_000, b"{}"),
        (b'{"keytype": "NOOP", "magic": 0}', None),
        (b'{"keytype": 5}', b"{}"),
        (b'{"keytype": "SCHEMA", "subject": "s", "version": true}', b'{"id": 1, "schema": ""}'),
        (b'{"keytype": "SCHEMA", "subject": "s", "version": 1}', b'{"id": "1", "schema": ""}'),
        (b'{"keytype": "SCHEMA", "subject": "s", "version": 1}', b'{"id": 1, "schema": "", "references": [5]}'),
    ],
)
def test_other_records_are_ignored(key: bytes | None, value: bytes | None) -> None:
    schemas = ObservedSchemas()
    schemas.observe(key, value)
    assert not schemas._versions
