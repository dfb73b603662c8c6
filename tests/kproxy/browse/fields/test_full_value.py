"""Fields and records can be shown in full."""

from __future__ import annotations

import pytest

from dissectors import records as wire
from kproxy.browse.fields.detail import build_frame_detail
from kproxy.browse.fields.field import FieldView
from kproxy.browse.fields.full_value import full_value
from kproxy.browse.fields.records import MAX_BYTES, Form, record_of
from tests.kproxy.browse.sides import response_line
from tests.kproxy.frames import response


def chain_to_records(*batches: dict[str, object]) -> list[FieldView]:
    """Return the chain of fields that leads to the record data of a Fetch response."""
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 1, "records": wire.encode(list(batches))}
    body = {"throttle_time_ms": 0, "responses": [{"topic": "t", "partitions": [partition]}]}
    detail = build_frame_detail(response_line(response("Fetch", 4, body), 1, 4))
    return detail.find("responses[0].partitions[0].records")


def follow(chain: list[FieldView], *names: str) -> list[FieldView]:
    for name in names:
        chain = [*chain, next(child for child in chain[-1].children if child.name == name)]
    return chain


def value_rows(chain: list[FieldView], form: Form = Form.FITS) -> list[str]:
    return ["".join(text for text, _ in row) for row in full_value(chain, form)]


def value_text(chain: list[FieldView], form: Form = Form.FITS) -> str:
    return "\n".join(value_rows(chain, form))


RECORD = {"offset": 7, "timestamp": 1_763_690_000_123, "key": b"k", "value": b'{"a":1}',
          "headers": [{"key": "h\x1b", "value": b"\x01"}]}  # fmt: skip


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_record_is_shown_in_full(codec: str) -> None:
    chain = follow(
        chain_to_records({"compression": codec, "base_offset": 7, "records": [RECORD]}), "[0]", "records", "[0]"
    )
    assert value_rows(chain) == [
        "offset     7", "timestamp  2025-11-21 01:53:20.123  1763690000123 ms",
        "", "header h\\x1b  hex, 1 byte", f"0000  01{' ' * 45}  .",
        "", "key  text, 1 byte", "k",
        "", "value  json, 7 bytes", "{", '  "a": 1', "}",
    ]  # fmt: skip
    assert '{"a":1}' in value_rows(chain, Form.TEXT)
    assert f'0000  7b 22 61 22 3a 31 7d{" " * 27}  {{"a":1}}' in value_rows(chain, Form.HEX)


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_and_wrapped_messages_are_shown_in_full(magic: int) -> None:
    wrapped = follow(
        chain_to_records({"magic": magic, "compression": "gzip", "base_offset": 7, "records": [RECORD]}), "[0]"
    )
    assert record_of(wrapped) is None
    assert value_rows(follow(wrapped, "value", "[0]"))[0] == "offset     7"
    plain = follow(chain_to_records({"magic": magic, "base_offset": 7, "records": [RECORD]}), "[0]")
    assert value_rows(plain)[0] == "offset     7"
    assert record_of(follow(plain, "value")) is None


def test_other_fields_are_not_a_record() -> None:
    chain = chain_to_records({"records": [RECORD]})
    for names in ((), ("[0]",), ("[0]", "records"), ("[0]", "crc"), ("[0]", "records", "[0]", "headers", "[0]")):
        assert record_of(follow(chain, *names)) is None


def test_field_is_shown_in_full() -> None:
    chain = follow(chain_to_records({"records": [RECORD]}), "[0]", "records", "[0]", "value")
    assert value_rows(chain)[-4:] == ["value  json, 7 bytes", "{", '  "a": 1', "}"]
    number = follow(chain_to_records({"records": [RECORD]}), "[0]", "attributes")
    assert value_text(number).startswith("kind  int16\nbytes ")
    assert value_rows(number)[-1] == "0"
    assert value_rows([FieldView("name", "name", value="a\ud800\n\x1b[2J")])[-2:] == ["a\\ud800", "\\x1b[2J"]
    assert "61 ff" in value_text([FieldView("name", "name", value="a\udcff")], Form.HEX)
    assert value_rows([FieldView("name", "name")])[-1] == "value  null"


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("value", ["ä" * MAX_BYTES, b"\xff" * 8 * MAX_BYTES, b"\n" * MAX_BYTES])
def test_long_value_is_truncated(value: str | bytes, form: Form) -> None:
    rows = value_rows([FieldView("value", "value", value=value)], form)
    assert len(rows) < 5_010
    assert sum(map(len, rows)) < 6 * MAX_BYTES
    assert ("all" in rows[-1]) == (len(value) > MAX_BYTES or (isinstance(value, str) and form is Form.HEX))
