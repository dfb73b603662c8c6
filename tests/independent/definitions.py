"""Kafka's message definitions as trees that may be changed freely, and a reader and a writer for them."""

from __future__ import annotations

import base64
import copy
import functools
import gzip
import json
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[1] / "data" / "kafka-messages.json.gz"
_PACK = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
         "float64": "d", "uuid": "16s"}  # fmt: skip
_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

Values = dict[str, Any]


@dataclass
class Member:
    """One member of a struct. Lengths are ``i16``, ``i32``, ``c`` (compact), ``c-1`` and ``c+1`` (off by one).

    `deviating_index` is the index of the one element whose layout is `deviating_struct`.
    """

    name: str
    kind: str
    array: bool = False
    nullable: bool = False
    length: str = ""
    element_length: str = ""
    inner: Struct | None = None
    tag: int | None = None
    default: Any = None
    as_null: bool = False
    size_delta: int = 0
    deviating_index: int = -1
    deviating_struct: Struct | None = None


@dataclass
class Struct:
    """Members in wire order and members in the tag buffer; `buffers` is the number of tag buffers at the end."""

    members: list[Member] = field(default_factory=list)
    tagged: list[Member] = field(default_factory=list)
    buffers: int = 0


@functools.cache
def definitions() -> dict[str, dict[str, Any]]:
    messages = json.loads(gzip.decompress(_FILE.read_bytes()))["messages"]
    return {message["name"]: message for message in messages}


def is_in_range(text: str | None, version: int) -> bool:
    if not text or text == "none":
        return False
    lowest, _, highest = text.partition("-")
    if lowest.endswith("+"):
        return version >= int(lowest[:-1])
    return int(lowest) <= version <= int(highest or lowest)


def versions(name: str) -> range:
    lowest, _, highest = definitions()[name]["versions"].partition("-")
    return range(int(lowest), int(highest or lowest) + 1)


def message(name: str, version: int) -> Struct:
    """Return a new tree of a message, which the caller may change."""
    return copy.deepcopy(shared_message(name, version))


@functools.cache
def shared_message(name: str, version: int) -> Struct:
    """Return the tree of a message, for reading and writing frames."""
    definition = definitions()[name]
    return _struct(definition["fields"], version, is_in_range(definition["flexible"], version))


def _struct(fields: list[dict[str, Any]], version: int, flexible: bool) -> Struct:
    result = Struct(buffers=int(flexible))
    for definition in fields:
        if not is_in_range(definition["versions"], version):
            continue
        kind, array = definition["type"].removeprefix("[]"), definition["type"].startswith("[]")
        compact = flexible and definition.get("flexibleVersions") != "none"
        inner = _struct(definition["fields"], version, flexible) if "fields" in definition else None
        length_encoding = "c" if compact else "i16" if kind == "string" else "i32"
        has_length = kind in ("string", "bytes", "records")
        tag = definition["tag"] if is_in_range(definition.get("taggedVersions"), version) else None
        nullable = is_in_range(definition.get("nullableVersions"), version)
        member = Member(
            _SNAKE.sub("_", definition["name"]).lower(),
            "struct" if inner else kind,
            array,
            nullable,
            inner=inner,
            tag=tag,
            default=definition.get("default"),
            element_length=length_encoding if array and has_length else "",
        )
        if array:
            member.length = "c" if compact else "i32"
        elif has_length:
            member.length = length_encoding
        (result.members if tag is None else result.tagged).append(member)
    return result


class Reader:
    def __init__(self, data: bytes, pos: int = 0) -> None:
        self.data, self.pos = data, pos
        self.bools: set[int] = set()

    def take(self, size: int) -> bytes:
        if size < 0 or self.pos + size > len(self.data):
            raise ValueError("short")
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def length(self, encoding: str) -> int:
        if encoding == "c":
            return self.varint() - 1
        return int.from_bytes(self.take(2 if encoding == "i16" else 4), "big", signed=True)

    def struct(self, shape: Struct) -> Values:
        values = {member.name: self.member(member) for member in shape.members}
        for _ in range(shape.buffers):
            tagged = {field.tag: field for field in shape.tagged}
            for _ in range(self.varint()):
                tag, size = self.varint(), self.varint()
                if tag in tagged:
                    end = self.pos + size
                    values[tagged[tag].name] = self.member(tagged[tag])
                    if self.pos != end:
                        raise ValueError("size of a tag")
                else:
                    values.setdefault("_tags", []).append([tag, self.take(size)])
        return values

    def member(self, member: Member) -> Any:
        if member.array:
            count = self.length(member.length)
            return None if count < 0 else [self.element(member, member.element_length) for _ in range(count)]
        if member.inner and member.nullable:
            mark = self.varint() if member.tag is not None else self.take(1)[0]
            if mark != 1:
                return None
        return self.element(member, member.length)

    def element(self, member: Member, length: str) -> Any:
        if member.inner:
            return self.struct(member.inner)
        if length:
            size = self.length(length)
            raw = None if size < 0 else self.take(size)
            return raw.decode() if raw is not None and member.kind == "string" else raw
        raw = self.take(struct.calcsize(">" + _PACK[member.kind]))
        if member.kind == "bool":
            self.bools.add(raw[0])
        value = struct.unpack(">" + _PACK[member.kind], raw)[0]
        return base64.urlsafe_b64encode(value).decode().rstrip("=") if member.kind == "uuid" else value


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes((*encoded, value))


def _length(encoding: str, size: int | None) -> bytes:
    if encoding[0] == "c":
        return varint(0 if size is None else size + 1 + int(encoding[1:] or 0))
    return (-1 if size is None else size).to_bytes(2 if encoding == "i16" else 4, "big", signed=True)


def write(shape: Struct, values: Values) -> bytes:
    """Return the bytes of a struct; raise OverflowError or struct.error if a value does not fit."""
    data_out = b"".join(_member(member, values.get(member.name)) for member in shape.members)
    for buffer_index in range(shape.buffers):
        pairs = [] if buffer_index else list(values.get("_tags", ()))
        if not buffer_index:
            for field in shape.tagged:
                if field.name in values:
                    pairs.append([field.tag, _member(field, values[field.name]), field.size_delta])
        data_out += varint(len(pairs))
        for tag, data, *delta in sorted(pairs, key=lambda pair: pair[0]):
            data_out += varint(tag) + varint(len(data) + sum(delta)) + data
    return data_out


def _member(member: Member, value: Any) -> bytes:
    if member.as_null:
        value = None
    if member.array:
        data = _length(member.length, None if value is None else len(value))
        for index, element in enumerate(value or ()):
            data += (
                write(member.deviating_struct, element)
                if index == member.deviating_index and member.deviating_struct
                else _element(member, member.element_length, element)
            )
        return data
    if member.inner and member.nullable:
        if value is None:
            return b"\x00" if member.tag is not None else b"\xff"
        return b"\x01" + write(member.inner, value)
    return _element(member, member.length, value)


def _element(member: Member, length: str, value: Any) -> bytes:
    if member.inner:
        return (
            value if isinstance(value, bytes) else write(member.inner, value)
        )  # already written, with a mistake, by the caller
    if length:
        raw = value.encode() if isinstance(value, str) else value
        return _length(length, None if raw is None else len(raw)) + (raw or b"")
    if member.kind == "uuid":
        value = base64.urlsafe_b64decode(value + "==")
    return struct.pack(">" + _PACK[member.kind], value)


def shape(struct_shape: Struct) -> str:
    """Return the types of a struct on the wire, without names: layouts of the same shape can hold the same bytes."""

    def member_shape(member: Member) -> str:
        inner = f"{{{shape(member.inner)}}}" if member.inner else member.kind
        return f"{'[]' if member.array else ''}{inner}:{member.length}:{member.element_length}"

    return ",".join(map(member_shape, struct_shape.members)) + f"|{struct_shape.buffers}"
