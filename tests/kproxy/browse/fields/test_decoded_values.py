"""Decoded keys and values are shown as fields, with and without the bytes of the frame, even if they are hostile."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kproxy.browse.fields.detail import build_frame_detail
from kproxy.browse.fields.field import FieldView
from kproxy.browse.fields.full_value import full_value
from kproxy.browse.fields.records import Form, record_fields, records
from tests.kproxy.browse.sides import request_line
from tests.kproxy.cli.test_payloads import RECORDS, produce

AVRO = {
    "format": "avro", "data": {"id": 17, "card": "4111", "lines": [{"n": 1}, {}], "none": []}, "type": "Order",
    "schema": {"id": 17}, "subject": "orders-value", "problem": "leftover bytes", "offset": 9,
}  # fmt: skip
PATH = "topic_data[0].partition_data[0].records[0].records[0]"


def produce_line(value: Any = AVRO, *, with_frame: bool = True) -> Any:
    key = {"format": "bytes", "data": "/wA="}
    header = {"key": "trace", "value": {"format": "text", "data": "00-\x1b[31m", "guess": True}}
    record = {"offset_delta": 0, "key": key, "value": value, "headers": [header]}
    batches = [{"base_offset": 0, "records": [record]}]
    body = {"acks": 1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": batches}]}]}
    line = request_line(produce(), body=body)
    return line if with_frame else msgspec.structs.replace(line, frame=None)


@pytest.mark.parametrize("with_frame", [True, False])
def test_decoded_value_is_shown_as_fields(with_frame: bool) -> None:
    detail = build_frame_detail(produce_line(with_frame=with_frame))
    value = detail.find(f"{PATH}.value")[-1]
    assert value.meaning == "avro Order orders-value id 17: leftover bytes at byte 9"
    assert [(child.name, child.text) for child in value.children] == [
        ("id", "17"), ("card", '"4111"'), ("lines", "2 elements"), ("none", "empty"),
    ]  # fmt: skip
    [card] = detail.find(f"{PATH}.value.lines[0].n")[-1:]
    assert card.value == 1
    if with_frame:
        assert detail.frame is not None
        assert value.value == RECORDS[0]["value"]
        assert detail.frame[value.start : value.end].endswith(value.value)
        assert {(child.start, child.end) for child in value.children} == {(value.start, value.end)}
    [trace] = detail.find(f"{PATH}.headers[0].value")[-1:]
    assert (trace.meaning, trace.children[0].text) == ("text?", r'"00-\x1b[31m"')


def test_decoded_records_have_summaries_and_full_values() -> None:
    detail = build_frame_detail(produce_line(with_frame=False))
    [field] = record_fields(detail.fields)
    [record] = records(field).records
    assert record.value.form == "avro Order orders-value id 17: leftover bytes at byte 9"
    assert record.value.text.startswith('{\n  "id": 17,\n')
    assert (record.key.form, record.key.text[:13]) == ("hex", "0000  ff 00  ")
    assert record.headers[0][1].text == r"00-\x1b[31m"
    rows = ["".join(text for text, _ in row) for row in full_value(detail.find(PATH))]
    assert '  "card": "4111",' in rows
    [chain] = [build_frame_detail(produce_line()).find(PATH)]
    assert any("00 00 00 00 11" in "".join(text for text, _ in row) for row in full_value(chain, Form.HEX))


@pytest.mark.parametrize(
    "value",
    [
        {"format": 1, "data": {"a": 1}, "schema": [], "type": None, "problem": 5, "offset": "x"},
        {"format": {}, "data": None, "schema": {"id": {}}, "reencoding": []},
        {"format": "bytes", "data": "no base64"},
        {"format": "bytes", "data": {"a": 1}},
        {"format": "json", "data": {"": {"..": ["x"]}, "a.b[0]": 1}},
    ],
)
@pytest.mark.parametrize("with_frame", [True, False])
def test_malformed_decoded_values_are_still_shown(value: Any, with_frame: bool) -> None:
    def check_fields(fields: list[FieldView]) -> None:
        for field in fields:
            assert isinstance(field.text, str)
            check_fields(field.children)

    detail = build_frame_detail(produce_line(value, with_frame=with_frame))
    check_fields(detail.fields)
    for field in record_fields(detail.fields):
        assert records(field).records
    assert list(full_value(detail.find(PATH)))
