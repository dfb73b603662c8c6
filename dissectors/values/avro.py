"""Read Avro's binary encoding with the writer's schema.

This does not use fastavro, because the bytes are untrusted: fastavro 1.13 crashes the process with a segmentation fault
on deeply nested data of a recursive schema, and does not return for an array of 2**60 nulls.

Source: the Avro 1.12 specification, "Binary Encoding" and "Logical Types".
"""

from __future__ import annotations

import struct
from typing import Any

from dissectors.records.varint import read_zigzag, write_zigzag
from dissectors.values.avro_schema import AvroType, parse
from dissectors.values.errors import SchemaError, bad_schema, cached_parser
from dissectors.values.logical import logical_value
from dissectors.values.schema_formats import schema_format
from dissectors.values.value import DecodedValue, ProblemKind, Schema, ValueContext, ValueLimits, ValueProblem
from dissectors.wire.errors import DecodeError
from dissectors.wire.primitives import Irregularity

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_parse = cached_parser(parse)


@schema_format("AVRO")
def avro(payload: bytes, schema: Schema, context: ValueContext, indexes: bytes | None) -> DecodedValue:
    """Decode Avro's binary encoding. Enums become their symbols, unions their values, and decimals text."""
    try:
        type_ = _parse(schema)
    except SchemaError as error:
        return DecodedValue("avro", payload, problem=bad_schema(error))
    reader = _Reader(payload, context.limits)
    try:
        data = reader.read(type_, 0)
    except DecodeError as error:
        misfit = ValueProblem(error.message, error.offset, ProblemKind.DOES_NOT_FIT)
        return DecodedValue("avro", reader.partial, type=type_.name, problem=misfit)
    problem = None
    if remaining := len(payload) - reader.pos:
        problem = ValueProblem(
            f"{remaining} byte{'s' * (remaining != 1)} left after the value: probably another schema",
            reader.pos,
            ProblemKind.LEFTOVER,
        )
    return DecodedValue(
        "avro",
        data,
        type=type_.name,
        problem=problem,
        reencoding="equal" if problem is None and not reader.deviation else reader.deviation,
    )


def check(schema: Schema) -> None:
    """Raise `SchemaError` if the schema is invalid."""
    parse(schema)


class _Reader:
    """Reads values; stops at the limits.

    Attributes:
        pos: The offset of the next byte.
        deviation: The first way in which the bytes differ from what Avro's own writer produces; None if they do not.
        partial: The fields of the outermost record that were read.
    """

    def __init__(self, data: bytes, limits: ValueLimits) -> None:
        self._data = data
        self._limits = limits
        self._nodes = 0
        self._path: list[str] = []
        self.pos = 0
        self.deviation: str | None = None
        self.partial: Any = None

    def read(self, type_: AvroType, depth: int) -> Any:
        """Read one value.

        Raises:
            DecodeError: The bytes do not fit the type, or a limit is reached.
        """
        self._nodes += 1
        if depth > self._limits.depth:
            raise self._error(f"nested more than {self._limits.depth} levels deep")
        if self._nodes > self._limits.nodes:
            raise self._error(f"more than {self._limits.nodes} values")
        kind = type_.kind
        if kind == "record":
            return self._read_record(type_, depth)
        if kind == "union":
            start, index = self.pos, self._read_long(32)
            if not 0 <= index < len(type_.branches):
                raise self._error(f"branch {index} of a union with {len(type_.branches)}", start)
            return self.read(type_.branches[index], depth + 1)
        if kind in ("array", "map"):
            return self._read_blocks(type_, depth)
        if kind == "enum":
            start, index = self.pos, self._read_long(32)
            if not 0 <= index < len(type_.symbols):
                raise self._error(f"symbol {index} of an enum with {len(type_.symbols)}", start)
            return type_.symbols[index]
        value = self._read_scalar(type_)
        return value if type_.logical is None else logical_value(value, type_.logical, type_.scale)

    def _read_scalar(self, type_: AvroType) -> Any:
        match type_.kind:
            case "null":
                return None
            case "boolean":
                start, byte = self.pos, self._read_bytes(1)[0]
                if byte > 1:
                    raise self._error(f"a boolean is {byte}", start)
                return byte == 1
            case "int":
                return self._read_long(32)
            case "long":
                return self._read_long(64)
            case "float":
                return _FLOAT.unpack(self._read_bytes(4))[0]
            case "double":
                return _DOUBLE.unpack(self._read_bytes(8))[0]
            case "string":
                return self._read_text()
            case "bytes":
                return self._read_bytes(self._read_size())
            case _:
                return self._read_bytes(type_.size)

    def _read_record(self, type_: AvroType, depth: int) -> dict[str, Any]:
        record: dict[str, Any] = {}
        if depth == 0:
            self.partial = record
        for name, field in type_.fields:
            self._path.append(name)
            record[name] = self.read(field, depth + 1)
            self._path.pop()
        return record

    def _read_blocks(self, type_: AvroType, depth: int) -> list[Any] | dict[str, Any]:
        assert type_.items is not None
        items: list[Any] = []
        by_key: dict[str, Any] = {}
        blocks = 0
        while True:
            start = self.pos
            if not (count := self._read_long(64)):
                return items if type_.kind == "array" else by_key
            blocks += 1
            if count < 0:
                count = -count
                self._note_deviation("an array or map has a block with its size in bytes", start)
                self._read_size()
            elif blocks > 1:
                self._note_deviation("an array or map is written in several blocks", start)
            if count > self._limits.nodes or (not type_.items.is_empty and count > len(self._data) - self.pos):
                raise self._error(f"a block of {count} elements does not fit", start)
            for _ in range(count):
                if type_.kind == "array":
                    items.append(self.read(type_.items, depth + 1))
                else:
                    key = self._read_text()
                    if key in by_key:
                        self._note_deviation("a map has a key twice", start)
                    by_key[key] = self.read(type_.items, depth + 1)

    def _read_long(self, bits: int) -> int:
        start = self.pos
        try:
            value, self.pos = read_zigzag(self._data, start, bits)
        except IndexError:
            raise self._error("the bytes end inside a number", len(self._data)) from None
        except Irregularity:
            raise self._error(f"a number has more than {bits} bits", start) from None
        if self.pos - start > 1 and len(write_zigzag(value)) != self.pos - start:
            self._note_deviation("a number takes more bytes than it needs", start)
        return value

    def _read_size(self) -> int:
        start, size = self.pos, self._read_long(64)
        if not 0 <= size <= len(self._data) - self.pos:
            raise self._error(f"length {size} does not fit: {len(self._data) - self.pos} bytes left", start)
        return size

    def _read_text(self) -> str:
        size = self._read_size()
        start = self.pos
        try:
            return self._read_bytes(size).decode()
        except UnicodeDecodeError as error:
            raise self._error("a string is not UTF-8", start + error.start) from None

    def _read_bytes(self, size: int) -> bytes:
        start, self.pos = self.pos, self.pos + size
        if self.pos > len(self._data):
            raise self._error("the bytes end inside a value", len(self._data))
        return self._data[start : self.pos]

    def _error(self, text: str, offset: int | None = None) -> DecodeError:
        path_text = ".".join(self._path)
        return DecodeError(f"{path_text}: {text}" if path_text else text, offset=self.pos if offset is None else offset)

    def _note_deviation(self, text: str, offset: int) -> None:
        self.deviation = self.deviation or f"differs: {text}, at byte {offset} after the envelope"
