"""The wrong encodings in which records of format 2 are recognised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The encoding of each field of a record, None if the field is left out. `deviates` is the first wrong field.

    Encodings: ``zigzag`` (the correct one); ``unsigned`` varints; ``compact`` as in flexible versions (length + 1, null
    is 0); ``int32``, ``int64``.
    """

    deviates: str
    sentence: str
    length: str | None = "zigzag"
    attributes: str | None = "int8"
    timestamp_delta: str | None = "zigzag"
    offset_delta: str | None = "zigzag"
    key_length: str = "zigzag"
    value_length: str = "zigzag"
    headers_count: str | None = "zigzag"
    header_length: str = "zigzag"
    length_counts_itself: bool = False


_LENGTHS = ("length", "key_length", "value_length", "headers_count", "header_length")


def _all_lengths(encoding: str, **others: str) -> dict[str, Any]:
    return dict.fromkeys(_LENGTHS, encoding) | others


#: The encodings by name, most probable first.
ENCODINGS = {
    "record_length_int32": RecordLayout(
        "length", "the length of each record is an int32, not a zigzag varint", length="int32"
    ),
    "record_length_unsigned": RecordLayout(
        "length", "the length of each record is an unsigned varint, not a zigzag one", length="unsigned"
    ),
    "lengths_unsigned": RecordLayout(
        "length", "lengths and counts are unsigned varints, not zigzag ones", **_all_lengths("unsigned")
    ),
    "varints_unsigned": RecordLayout(
        "length",
        "lengths, counts and deltas are unsigned varints, not zigzag ones",
        **_all_lengths("unsigned", timestamp_delta="unsigned", offset_delta="unsigned"),
    ),
    "lengths_compact": RecordLayout(
        "length",
        "lengths and counts are compact ones (length + 1), as in flexible versions, not zigzag varints",
        **_all_lengths("compact", length="unsigned"),
    ),
    "headers_missing": RecordLayout("headers_count", "records end without a count of headers", headers_count=None),
    "attributes_missing": RecordLayout("attributes", "records begin without their attributes byte", attributes=None),
    "timestamp_delta_missing": RecordLayout(
        "timestamp_delta", "records have no timestamp delta behind their attributes", timestamp_delta=None
    ),
    "offset_delta_missing": RecordLayout(
        "offset_delta", "records have no offset delta before their key", offset_delta=None
    ),
    "timestamp_delta_int64": RecordLayout(
        "timestamp_delta", "the timestamp delta is an int64, not a zigzag varint", timestamp_delta="int64"
    ),
    "offset_delta_int32": RecordLayout(
        "offset_delta", "the offset delta is an int32, not a zigzag varint", offset_delta="int32"
    ),
    "lengths_int32": RecordLayout(
        "length", "all lengths and counts are int32, not zigzag varints", **_all_lengths("int32")
    ),
    "key_value_lengths_int32": RecordLayout(
        "key_length",
        "the lengths of keys and values are int32, not zigzag varints",
        key_length="int32",
        value_length="int32",
    ),
    "key_length_int32": RecordLayout(
        "key_length", "the length of each key is an int32, not a zigzag varint", key_length="int32"
    ),
    "value_length_int32": RecordLayout(
        "value_length", "the length of each value is an int32, not a zigzag varint", value_length="int32"
    ),
    "headers_count_unsigned": RecordLayout(
        "headers_count", "the count of headers is an unsigned varint, not a zigzag one", headers_count="unsigned"
    ),
    "headers_unsigned": RecordLayout(
        "headers_count",
        "the count and the lengths of headers are unsigned varints, not zigzag ones",
        headers_count="unsigned",
        header_length="unsigned",
    ),
    "headers_count_int32": RecordLayout(
        "headers_count", "the count of headers is an int32, not a zigzag varint", headers_count="int32"
    ),
    "record_length_counts_itself": RecordLayout(
        "length", "the length of each record counts its own bytes too", length_counts_itself=True
    ),
    "record_length_missing": RecordLayout("length", "records have no length before them", length=None),
}
