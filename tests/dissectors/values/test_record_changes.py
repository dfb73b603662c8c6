"""Changes to records between Produce and Fetch: those of a gateway, and those that Kafka itself may make."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from dissectors.values import Schema, SchemaKey, WrittenRecord
from dissectors.values.record_changes import record_changes
from tests.serialized import JSON_ORDER, ORDER, PAYMENT, PROTO_PAYMENT, sample_registry

LONG_ID, GUID = b"\0" + (2).to_bytes(8, "big"), bytes.fromhex("01 0198f2a0aaaa7bbb8ccc0123456789ab")
SCHEMAS: dict[SchemaKey, Schema] = {
    **sample_registry(),
    SchemaKey("global_id", 2): sample_registry()[SchemaKey("id", 2)],
    SchemaKey("guid", "0198f2a0-aaaa-7bbb-8ccc-0123456789ab"): sample_registry()[SchemaKey("id", 2)],
}
UNKNOWN = b"\0\0\0\0\x63" + ORDER[5:]
UUID = bytes.fromhex("89791762233641869674299b90a802e2")
AT = 1_767_225_600_000


def record(value: bytes | None = ORDER, **fields: Any) -> WrittenRecord:
    written_record = WrittenRecord(
        "orders", 0, "records[0]", 7, 2, AT, is_append_time=False, key=b"k", value=value, headers=()
    )
    return written_record._replace(**fields)


def change_texts(before: WrittenRecord, after: WrittenRecord, *, at: int = -1, is_recent: bool = True) -> list[str]:
    changes = record_changes(before, after, SCHEMAS, append_time=at, is_recent=is_recent)
    return [f"{change.part}: {change.text}" for change in changes]


SAME = "; its other bytes are the same"
VALUES = {
    "stripped": (ORDER, ORDER[5:], f"its envelope with schema id 2 is missing{SAME}"),
    "stripped, id unknown": (UNKNOWN, ORDER[5:], f"its envelope with schema id 99 is missing{SAME}"),
    "added": (ORDER[5:], ORDER, f"it has an envelope with schema id 2, and had none{SAME}"),
    "another id": (ORDER, UNKNOWN, f"its schema was id 2, and is id 99{SAME}"),
    "Apicurio's": (ORDER, LONG_ID + ORDER[5:], f"its schema was id 2, and is global id 2{SAME}"),
    "GUID": (ORDER, GUID + ORDER[5:], f"its schema was id 2, and is guid 0198f2a0-aaaa-7bbb-8ccc-0123456789ab{SAME}"),
    "another schema": (ORDER, PAYMENT, "its schema was id 2, and is id 3; the field id is missing"),
    "message index": (PROTO_PAYMENT, PROTO_PAYMENT[:5] + b"\0" + PROTO_PAYMENT[7:],
                      f"its message indexes were (1,), and are (0,){SAME}"),
    "another field": (ORDER, ORDER[:5] + b"\x24" + ORDER[6:], "the field id differs"),
    "another length": (ORDER, ORDER[:-6] + b"\2\2a\0", "the field tags differs"),
    "encoded again": (ORDER, ORDER[:5] + b"\xa2\0" + ORDER[6:],
                      "its fields are the same, but its bytes differ from byte 5 on"),
    "stripped and encoded again": (ORDER, b"\xa2\0" + ORDER[6:],
        "its envelope with schema id 2 is missing; its fields are the same, but its bytes differ from byte 0 on"),
    "JSON": (ORDER, b'{"tags": ["a", "b"], "note": "hi", "id": 17}',
             "its envelope with schema id 2 is missing; avro became json, with the same fields"),
    "JSON, another field": (ORDER, b'{"id": 17, "note": null, "tags": []}',
                            "its envelope with schema id 2 is missing; avro became json, and the field note differs"),
    "JSON reordered": (b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}',
                       "its fields are the same, but its bytes differ from byte 2 on"),
    "JSON Schema": (JSON_ORDER, JSON_ORDER[5:], f"its envelope with schema id 5 is missing{SAME}"),
    "zlib": (b"\3\5" + UUID + zlib.compress(b"abc"), b"\3\0" + UUID + b"abc", f"it is no longer compressed{SAME}"),
    "cut off": (ORDER, ORDER[:-1], "its bytes differ from byte 15 on"),
    "a number": (b'{"a": true}', b'{"a": 1}', "the field a differs"),
    "the same number": (b'{"a": 1.0}', b'{"a": 1}', "its fields are the same, but its bytes differ from byte 7 on"),
    "new fields, in their order": (b'{"z": 1}', b'{"z": 1, "e": 1, "d": 1, "c": 1, "b": 1, "a": 1}',
                                   "the field e is new"),
    "a long name": (b'{"%s": {"b": 1}}' % (b"n" * 300), b'{"%s": {}}' % (b"n" * 300),
                    f"the field {'n' * 200}... is missing"),
    "null": (ORDER, None, "it was 16 bytes, and is null"),
    "emptied": (b"abc", b"", "it was 3 bytes, and is 0 bytes"),
    "not null": (None, b"", "it was null, and is 0 bytes"),
    "text": (b"abc", b"abd", "its bytes differ from byte 2 on"),
    "bytes": (b"\xff\0", b"\xfe\0", "its bytes differ from byte 0 on"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "text"), VALUES.values(), ids=VALUES)
def test_value_change_is_described(before: bytes | None, after: bytes | None, text: str) -> None:
    assert change_texts(record(before), record(after)) == [f"value: {text}"]


HEADER = ("__value_schema_id", ORDER[:5])


def test_envelope_moved_to_a_header_is_described() -> None:
    with_header = record(ORDER[5:], headers=(HEADER,))
    assert change_texts(record(), with_header) == [
        f"value: the schema id 2 was in its first bytes, and is in a header{SAME}"
    ]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ([("a", b"1"), ("b", None)], [("b", None)], "the header a is missing"),
        ([("a", b"1"), ("b", None)], [], "the header a is missing, and 1 more"),
        ([], [("a", b"1")], "the header a is new"),
        ([("a", b"1")], [("a", b"1"), ("a", b"1")], "the header a is new"),
        ([("a", b"1"), ("b", None)], [("b", None), ("a", b"1")], "the headers are in another order"),
        ([("a", None)], [("a", b"")], "the value of the header a differs"),
        ([("n" * 300, None)], [], f"the header {'n' * 200}... is missing"),
        ([("n" * 300, None)], [("n" * 300, b"")], f"the value of the header {'n' * 200}... differs"),
    ],
)
def test_header_change_is_described(before: list[Any], after: list[Any], text: str) -> None:
    assert change_texts(record(headers=tuple(before)), record(headers=tuple(after))) == [f"headers: {text}"]
    assert change_texts(record(headers=tuple(before)), record(headers=tuple(after), magic=1)) == []


def test_timestamp_change_is_described_unless_kafka_makes_it() -> None:
    assert change_texts(record(), record(timestamp=0)) == [f"timestamp: it was {AT} ms, and is 0 ms"]
    assert change_texts(record(), record(timestamp=AT + 5, is_append_time=True), at=AT + 5) == []
    assert (
        change_texts(record(), record(), at=AT + 5) == []
    )  # a retry: the broker returns the first batch's last timestamp
    assert change_texts(record(), record(timestamp=AT + 5, is_append_time=True)) == []  # of an old Produce version
    assert change_texts(record(), record(timestamp=-1, magic=0)) == []


def test_only_records_that_are_surely_the_same_are_compared() -> None:
    other_value = ORDER[:5] + b"\x24" + ORDER[6:]
    assert change_texts(record(), record(timestamp=AT + 5)) == []
    assert change_texts(record(headers=(("trace", b"1"),)), record(headers=(("trace", b"2"),), timestamp=AT + 5)) == []
    assert change_texts(record(), record(other_value, timestamp=AT + 5)) == []
    assert change_texts(record(None), record(b"other", timestamp=AT + 5)) == []
    assert change_texts(record(None), record(None, timestamp=AT + 5)) == []
    assert change_texts(record(), record(key=b"other", timestamp=AT + 5)) == []
    assert change_texts(record(), record(ORDER[5:], timestamp=AT + 5), is_recent=False) == []
    assert (
        change_texts(record(), record(ORDER[5:], timestamp=AT + 5))[1]
        == f"timestamp: it was {AT} ms, and is {AT + 5} ms"
    )
    assert change_texts(record(), record(other_value), is_recent=False) == [
        "value: the field id differs"
    ]  # in the same millisecond


def test_change_of_a_masked_record_shows_no_names() -> None:
    before, after = record(headers=(("a", b""),)), record(ORDER[:5] + b"\x24" + ORDER[6:])
    assert change_texts(before._replace(masked=True), after) == [
        "value: its fields differ",
        "headers: the headers differ",
    ]
