"""Masks and rules apply to the keys and values inside the records of Kafka Streams."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest

from dissectors.records import encode
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.masks import Masks
from kproxy.inspection.record_values import RecordValues
from kproxy.inspection.text_masks import TextMasks
from kproxy.registry import SchemaSources
from kproxy.trace.lines import Detail, RequestLine
from tests.dissectors.values.test_streams_topics import RECORDS, window_key
from tests.kproxy.frames import request
from tests.serialized import ORDER, InMemoryRegistry, sample_registry

AGGREGATE = "app-KTABLE-AGGREGATE-STATE-STORE-0000000003-repartition"
RESPONSE = "app-KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-0000000014-topic"
REGISTRATION = "app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic"


def body(topic: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    partition = {"index": 0, "records": encode([{"records": records}])}
    return {"acks": 1, "timeout_ms": 100, "topic_data": [{"name": topic, "partition_data": [partition]}]}


def produce_line(topic: str, records: list[dict[str, Any]], masks: Masks, source: Any = None) -> RequestLine:
    inspector = Inspector("t", Detail.FULL, record_values=RecordValues(source or SchemaSources([]), masks))
    inspector.open(1, "a:1", "b:9092", at=0)
    [line] = inspector.receive_data(1, 0, request("Produce", 9, body(topic, records)), at=1)  # type: ignore[arg-type]
    assert isinstance(line, RequestLine)
    return line


def line_text(topic: str, masks: Masks) -> str:
    """Return the trace line of records with every value that Kafka's classes wrote to a topic."""
    values = [
        base64.b64decode(record["data"]) for record in RECORDS if (record["topic"], record["part"]) == (topic, "value")
    ]
    return msgspec.json.encode(produce_line(topic, [{"key": None, "value": value} for value in values], masks)).decode()


@pytest.mark.parametrize("topic", [AGGREGATE, RESPONSE])
def test_masked_fields_of_wrapped_values_appear_nowhere(topic: str) -> None:
    assert "planted" in line_text(topic, Masks(()))
    for mask in ("value.card", "value", "value.**", "value.**.card"):
        line = line_text(topic, Masks([mask]))
        assert "planted" not in line
        assert "0123456789abcdef" not in line  # the hash of a masked value
    assert "planted" in line_text(topic, Masks(["other:value.card"]))
    assert "planted" not in line_text(topic, Masks((), (), TextMasks(["planted"])))


def test_mask_can_name_one_value_of_a_change() -> None:
    line = line_text(AGGREGATE, Masks(["value.old.card"]))
    assert "planted-1" in line
    assert "planted-2" not in line


def test_masked_keys_are_masked_inside_values() -> None:
    assert "pk-1" in line_text(REGISTRATION, Masks(["value.card"]))
    assert "pk-1" not in line_text(REGISTRATION, Masks(["key.id"]))


def test_masked_keys_are_masked_inside_windowed_keys() -> None:
    key = window_key(b'{"id": "planted-3", "n": 17}')
    line = produce_line("app-s-changelog", [{"key": key, "value": None}], Masks(["key.id"]))
    [record] = line.body["topic_data"][0]["partition_data"][0]["records"][0]["records"]  # type: ignore[index]
    assert record["key"]["data"]["key"] == {"id": "(masked)", "n": 17}
    assert record["key"]["data"]["sequence"] == 0
    assert record["value"] is None


def test_masks_by_tag_apply_to_wrapped_values() -> None:
    source = InMemoryRegistry()
    field = {"name": "card", "type": "string", "confluent:tags": ["PII"]}
    source.add(9, "AVRO", json.dumps({"type": "record", "name": "Order", "fields": [field]}), "orders-value")
    value = b"\x80\0\0\0\0\x09\x12planted-1"
    for masks, is_shown in ((Masks(()), True), (Masks((), ["PII"]), False), (Masks((), ["other"]), True)):
        line = produce_line(RESPONSE, [{"key": None, "value": value}], masks, source)
        assert (b"planted" in msgspec.json.encode(line)) == is_shown
    unknown_schema = produce_line(RESPONSE, [{"key": None, "value": value}], Masks((), ["PII"]))
    assert b"planted" not in msgspec.json.encode(unknown_schema)


def codes(topic: str, records: list[dict[str, Any]]) -> list[str]:
    return [finding.code for finding in produce_line(topic, records, Masks(()), sample_registry()).findings]


def test_wrapped_keys_and_values_cause_no_findings() -> None:
    """A wrapper may hide the schema id that other records have (P004), or follow the value (P006)."""
    windowed = [{"key": window_key(ORDER, start), "value": ORDER} for start in (0, 1795444800000, 1795444800000)]
    assert codes("app-orders-changelog", windowed) == []
    changes = [{"key": None, "value": value} for value in [ORDER + b"\1"] * 4 + [b"\1"]]
    assert codes(AGGREGATE, changes) == []
    responses = [{"key": None, "value": value} for value in [b"\x80" + ORDER] * 4 + [b"\x80"]]
    assert codes(RESPONSE, responses) == []


def test_finding_about_a_wrapped_value_points_at_its_bytes() -> None:
    records = [{"key": None, "value": b"\x80" + ORDER + b"\4"}]
    [finding] = produce_line(RESPONSE, records, Masks(()), sample_registry()).findings
    start = request("Produce", 9, body(RESPONSE, records)).index(ORDER) + len(ORDER)
    assert (finding.code, finding.span) == ("P006", (start, start + 1))
    assert "schema id 2 (Order)" in finding.message
