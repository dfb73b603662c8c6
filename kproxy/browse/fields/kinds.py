"""Names of wire types: ``int32``, ``compact nullable string``, ``varint``."""

from __future__ import annotations

from dissectors.records.batch import HEADER_FIELDS
from dissectors.wire.layout import CODES, Field

_TYPE_OF_CODE = {code: name for name, code in CODES.items()}

#: The default types of length prefixes, which are not shown; `compact` means `uvarint` (KIP-482).
_DEFAULT_LENGTHS = {"string": "int16", "bytes": "int32", "records": "int32"}

#: Fields of a format 2 batch and of its records; source: Kafka's DefaultRecordBatch and DefaultRecord.
BATCH = {name: _TYPE_OF_CODE[code] for name, code in HEADER_FIELDS} | {"records": "array of record"}
RECORD = {
    "length": "varint",
    "attributes": "int8",
    "timestamp_delta": "varlong",
    "offset_delta": "varint",
    "key": "varint bytes",
    "value": "varint bytes",
    "headers_count": "varint",
    "headers": "array of header",
}
HEADER = {"key": "varint string", "value": "varint bytes"}

#: A message of format 0 or 1 (LegacyRecord).
MESSAGE = {
    "offset": "int64",
    "message_size": "int32",
    "crc": "uint32",
    "magic": "int8",
    "attributes": "int8",
    "timestamp": "int64",
    "key": "nullable bytes",
    "value": "nullable bytes",
}


def kind_of(field: Field | None) -> str:
    """Return the wire type of a field from its layout; empty if None."""
    if field is None:
        return ""
    words = []
    if field.tag is not None:
        words.append(f"tag {field.tag},")
    if field.array:
        if field.length == "uvarint":
            words.append("compact")
        if field.nullable:
            words.append("nullable")
        words += ["array of", _describe_type(field.type, field.element_length, nullable=False)]
    else:
        words.append(_describe_type(field.type, field.length, nullable=field.nullable))
    return " ".join(words)


def kind_of_element(field: Field | None) -> str:
    """Return the wire type of an array's elements."""
    return "" if field is None else _describe_type(field.type, field.element_length, nullable=False)


def _describe_type(kind: str, length: str | None, *, nullable: bool) -> str:
    compact = "compact " if length == "uvarint" and kind != "struct" else ""
    # An edit has set a different length type.
    unusual = f" with {length} length" if length not in (None, "uvarint", _DEFAULT_LENGTHS.get(kind, length)) else ""
    return f"{compact}{'nullable ' if nullable else ''}{kind}{unusual}"
