"""The slow path: reads any layout from any bytes, with the span of every field and the byte where reading stopped."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dissectors.collector import collector_disabled
from dissectors.wire.errors import DecodeError, TooManyElements
from dissectors.wire.layout import CODES, WIDTHS, Field, Layout, cached_on_owner, layout_of_element
from dissectors.wire.node import Node
from dissectors.wire.plausibility import PlausibilityCheck, plausibility_check
from dissectors.wire.primitives import MAX_ELEMENTS, TEXT_ERRORS, uuid_text

#: The maximum number of nodes in one walk. Each takes a microsecond or two, and a frame can have one for every byte.
MAX_NODES: Final = 400_000

#: The maximum number of decode warnings in one walk; later ones are dropped.
MAX_WARNINGS: Final = 10_000

_UNPACK: Final = {kind: struct.Struct(">" + code).unpack_from for kind, code in CODES.items()}
#: The numeric types; they have no irregular values.
_NUMBERS: Final = frozenset(WIDTHS) - {"bool", "uuid"}


@dataclass(frozen=True, slots=True)
class DecodeWarning:
    """Bytes that decode, but that Kafka's own writers never produce.

    `kind` is one of ``null``, ``bool``, ``utf8``, ``varint``, ``length``, ``tag_order``, ``tag_size``,
    ``implausible`` (`dissectors.wire.plausibility`). The span is half-open and counts from the start of the frame;
    `path` is the field, outermost first.
    """

    kind: str
    message: str
    start: int
    end: int
    path: tuple[str, ...]


@dataclass(slots=True)
class WalkResult:
    """The result of a walk: a tree of spans and the same fields as plain values, both partial if `error` is set.

    `end` is one past the last byte read, and `size` the number of nodes. The leaves of the tree and the length
    prefixes of their parents cover every byte.
    """

    nodes: list[Node]
    values: dict[str, Any]
    end: int
    error: DecodeError | None = None
    decode_warnings: list[DecodeWarning] = field(default_factory=list)
    size: int = 0


def walk(
    layout: Layout, frame: bytes, start: int = 0, end: int | None = None, *, most_nodes: int = MAX_NODES
) -> WalkResult:
    """Read `layout` from `frame`, keeping the span of every field.

    Args:
        layout: The layout of a body, header or payload, from `dissectors.wire.layout` or an edit.
        frame: The whole frame, length prefix included, so that spans index into it.
        start: Offset of the first byte.
        end: One past the last byte to read; None for the end of `frame`.
        most_nodes: The walk stops with `TooManyElements` before it creates more nodes than this.

    Returns:
        The fields read so far; bad bytes set `WalkResult.error` and never raise. Values are as in
        `dissectors.wire.decode.decode`, except that records are bytes.
    """
    walker = _Walker(frame, start, len(frame) if end is None else end, most_nodes)
    walked = WalkResult([], {}, start)
    with collector_disabled():
        try:
            walker.read_struct(layout, walked.nodes, walked.values)
        except DecodeError as error:
            walked.error = error.with_traceback(None)  # the traceback would keep all callers' local variables alive
    walked.end = walker.pos
    walked.decode_warnings = walker.decode_warnings
    walked.size = most_nodes - max(walker.nodes_left, 0)
    return walked


def _byte_count_text(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


class _Step(NamedTuple):
    """A field and, if it is a number, how to read it."""

    field: Field
    check: PlausibilityCheck | None
    width: int = 0
    unpack: Callable[[bytes, int], tuple[Any, ...]] | None = None


@cached_on_owner
def _steps(layout: Layout) -> tuple[_Step, ...]:
    return tuple(map(_step, layout.fields))


@cached_on_owner
def _step(field: Field) -> _Step:
    if field.array or field.struct is not None or field.type not in _NUMBERS:
        return _Step(field, plausibility_check(field))
    return _Step(field, plausibility_check(field), WIDTHS[field.type], _UNPACK[field.type])


class _Walker:
    def __init__(self, data: bytes, pos: int, end: int, most_nodes: int) -> None:
        self.data = data
        self.pos = pos
        self.end = end
        self.elements_left = MAX_ELEMENTS
        self.nodes_left = self.most_nodes = most_nodes
        self.path: list[str] = []
        self.decode_warnings: list[DecodeWarning] = []

    def error(self, message: str, offset: int, kind: str = "") -> DecodeError:
        return DecodeError(message, offset=offset, path=tuple(self.path), kind=kind)

    def length_error(self, message: str, offset: int, size: int) -> DecodeError:
        """Return the error for a length that does not fit; its kind is ``length`` if it does not even fit the frame."""
        return self.error(message, offset, "" if 0 <= size <= len(self.data) else "length")

    def warn(self, kind: str, message: str, start: int) -> None:
        if len(self.decode_warnings) < MAX_WARNINGS:
            self.decode_warnings.append(DecodeWarning(kind, message, start, self.pos, tuple(self.path)))

    def reserve_nodes(self, count: int) -> None:
        """Deduct `count` from the number of nodes that this walk may still create."""
        self.nodes_left -= count
        if self.nodes_left < 0:
            raise self.too_many_error(f"more than {self.most_nodes} fields")

    def too_many_error(self, message: str) -> TooManyElements:
        return TooManyElements(message, offset=self.pos, path=tuple(self.path))

    def take(self, width: int, description: str) -> bytes:
        remaining = self.end - self.pos
        if width > remaining:
            raise self.error(f"{description} needs {_byte_count_text(width)}, {max(remaining, 0)} left", self.pos)
        self.pos += width
        return self.data[self.pos - width : self.pos]

    def read_struct(self, layout: Layout, nodes: list[Node], values: dict[str, Any]) -> None:
        data, end = self.data, self.end
        steps = _steps(layout)
        self.reserve_nodes(len(steps))
        for plain_field, check, width, unpack in steps:
            start = self.pos
            if unpack is None or start + width > end:
                self.read_field(plain_field, nodes, values)
                continue
            (value,) = unpack(data, start)
            values[plain_field.name] = value
            self.pos = start + width
            nodes.append(Node(plain_field.name, start, self.pos, value))
            if value and check is not None and not check(value):
                self.path.append(plain_field.name)
                self.warn_implausible(plain_field, value, start)
                self.path.pop()
        if layout.flexible:
            self.read_tags(layout, nodes, values)

    def warn_implausible(self, field: Field, value: Any, start: int) -> None:
        self.warn("implausible", f"{field.name} can hardly be {value!r}", start)

    def read_field(self, field: Field, nodes: list[Node], values: dict[str, Any]) -> None:
        self.path.append(field.name)
        node = Node(field.name, self.pos, self.pos)
        nodes.append(node)
        try:
            if field.array:
                self.read_array(field, node, values)
            elif field.struct is not None:
                self.read_struct_field(field, node, values)
            else:
                node.value = values[field.name] = self.read_value(field.type, field.length, field.nullable)
                check = _step(field).check
                if node.value and check is not None and not check(node.value):
                    self.warn_implausible(field, node.value, node.start)
        except DecodeError:
            if self.pos == node.start and not node.children:
                nodes.pop()
                values.pop(field.name, None)
            raise
        finally:
            node.end = self.pos
        self.path.pop()

    def read_struct_field(self, field: Field, node: Node, values: dict[str, Any]) -> None:
        assert field.struct is not None
        if field.length is not None:
            marker, null = self.read_presence_marker(field.length)
            if marker not in (1, null):
                self.warn("length", f"presence marker is {marker}, not 1", node.start)
            if marker <= null:
                values[field.name] = None
                return
        struct_values: dict[str, Any] = {}
        values[field.name] = struct_values
        self.read_struct(field.struct, node.children, struct_values)

    def read_array(self, field: Field, node: Node, values: dict[str, Any]) -> None:
        assert field.length is not None
        count = self.read_length(field.length, "array")
        if count is None:
            if not field.nullable:
                self.warn("null", "null where the protocol allows none", node.start)
            values[field.name] = None
            return
        if count > self.end - self.pos:  # an element takes at least one byte
            remaining, self.pos = self.end - self.pos, node.start
            raise self.length_error(
                f"array of {count} elements cannot fit in {_byte_count_text(remaining)}", node.start, count
            )
        self.elements_left -= count
        if self.elements_left < 0:
            self.pos = node.start
            raise self.too_many_error(f"more than {MAX_ELEMENTS} elements")
        self.reserve_nodes(count)
        elements: list[Any] = []
        values[field.name] = elements
        if count == 0:
            node.value = elements  # distinguishes an empty array from null
        for index in range(count):
            self.path.append(str(index))
            child = Node(str(index), self.pos, self.pos)
            node.children.append(child)
            try:
                if field.struct is not None:
                    element_values: dict[str, Any] = {}
                    elements.append(element_values)
                    self.read_struct(layout_of_element(field, index), child.children, element_values)
                else:
                    child.value = self.read_value(field.type, field.element_length, nullable=False)
                    elements.append(child.value)
            except DecodeError:
                if self.pos == child.start and not child.children:
                    node.children.pop()
                    if field.struct is not None:
                        elements.pop()
                raise
            finally:
                child.end = self.pos
            self.path.pop()

    def read_value(self, kind: str, length: str | None, nullable: bool) -> Any:
        start = self.pos
        if length is None:
            return self.read_fixed(kind, start)
        size = self.read_length(length, kind)
        if size is None:
            if not nullable:
                self.warn("null", "null where the protocol allows none", start)
            return None
        if size > self.end - self.pos:
            remaining, self.pos = self.end - self.pos, start
            raise self.length_error(f"length {size} does not fit: {_byte_count_text(remaining)} left", start, size)
        raw = self.take(size, kind)
        if kind != "string":
            return raw
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.warn("utf8", "string is not UTF-8", start)
            return raw.decode("utf-8", TEXT_ERRORS)

    def read_fixed(self, kind: str, start: int) -> Any:
        raw = self.take(WIDTHS[kind], kind)
        if kind == "uuid":
            return uuid_text(raw)
        if kind == "bool":
            if raw[0] > 1:
                self.warn("bool", f"boolean is {raw[0]}, not 0 or 1", start)
            return raw[0] != 0
        return _UNPACK[kind](raw)[0]

    def read_presence_marker(self, encoding: str) -> tuple[int, int]:
        """Read the presence marker of a nullable struct; return it and the marker that means null."""
        if encoding == "uvarint":
            return self.read_uvarint("presence marker"), 0
        return int.from_bytes(self.take(1, "presence marker"), "big", signed=True), -1

    def read_length(self, encoding: str, description: str) -> int | None:
        """Read a count or size; None is null. A length below -1 is invalid and stops the walk at its first byte."""
        start = self.pos
        if encoding == "uvarint":
            compact = self.read_uvarint(f"length of {description}")
            return compact - 1 if compact else None
        if encoding == "uvarint-1":
            return self.read_uvarint(f"length of {description}")
        if encoding == "uvarint+1":
            compact = self.read_uvarint(f"length of {description}")
            if compact == 1:
                self.pos = start
                raise self.error(f"length of {description} is -1 if it is off by one", start)
            return compact - 2 if compact else None
        width = {"int16": 2, "int32": 4}[encoding]
        size = int.from_bytes(self.take(width, f"length of {description}"), "big", signed=True)
        if size < -1:
            self.pos = start
            raise self.length_error(f"length of {description} is {size}", start, size)
        return None if size == -1 else size

    def read_uvarint(self, description: str) -> int:
        start = self.pos
        value = shift = 0
        while True:
            byte = self.take(1, description)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 28:
                self.pos = start
                raise self.error(f"{description} is a varint of more than 5 bytes", start, "varint")
        if value >> 32:
            self.pos = start
            raise self.error(f"{description} is a varint of more than 32 bits", start, "varint")
        if byte == 0 and shift > 7:
            self.warn("varint", f"{description} takes {shift // 7} bytes where fewer suffice", start)
        return value

    def read_tags(self, layout: Layout, nodes: list[Node], values: dict[str, Any]) -> None:
        """Read the tag buffer: a count, then the tag, size and value of each field (KIP-482)."""
        self.path.append("_tags")
        node = Node("_tags", self.pos, self.pos)
        nodes.append(node)
        try:
            count = self.read_uvarint("count of tagged fields")
            if count * 2 > self.end - self.pos:  # a tagged field takes at least two bytes
                remaining, self.pos = self.end - self.pos, node.start
                raise self.length_error(
                    f"{count} tagged fields cannot fit in {_byte_count_text(remaining)}", node.start, count
                )
            self.reserve_nodes(count)
            fields = {field.tag: field for field in layout.tagged}
            last_tag = -1
            for _ in range(count):
                last_tag = self.read_tag(fields, last_tag, node, values, layout.wrong_size)
            if layout.tag_fault == "twice":
                self.read_uvarint("count of tagged fields")
        except DecodeError:
            if self.pos == node.start:
                nodes.pop()
            raise
        finally:
            node.end = self.pos
        self.path.pop()

    def read_tag(
        self,
        fields: dict[int | None, Field],
        last_tag: int,
        parent: Node,
        values: dict[str, Any],
        wrong_size: tuple[int, int] | None,
    ) -> int:
        """Read one tagged field and return its tag. If the layout says that its size is wrong, the size is ignored."""
        start = self.pos
        tag = self.read_uvarint("tag")
        if tag <= last_tag:
            self.warn("tag_order", f"tag {tag} follows tag {last_tag}", start)
        size = self.read_uvarint(f"size of tag {tag}")
        field = fields.get(tag)
        is_size_correct = field is None or wrong_size is None or wrong_size[0] != tag
        end = self.pos + size if is_size_correct else self.end
        if end > self.end:
            remaining, self.pos = self.end - self.pos, start
            raise self.length_error(
                f"tag {tag} of {_byte_count_text(size)} does not fit: {_byte_count_text(remaining)} left", start, size
            )
        self.path.append(field.name if field else f"tag {tag}")
        node = Node(self.path[-1], start, start)
        parent.children.append(node)
        if field is None:
            node.value = self.take(size, "tag")
            values.setdefault("_tags", []).append([tag, node.value])
        else:
            value_walker = _Walker(self.data, self.pos, end, self.most_nodes)
            value_walker.path = self.path[:-1]
            value_walker.decode_warnings = self.decode_warnings
            value_walker.elements_left, value_walker.nodes_left = self.elements_left, self.nodes_left
            try:
                value_walker.read_field(field, node.children, values)
            finally:
                self.pos = node.end = value_walker.pos
                self.elements_left, self.nodes_left = value_walker.elements_left, value_walker.nodes_left
            if value_walker.pos != end and is_size_correct:
                self.warn(
                    "tag_size",
                    f"tag {tag} says {_byte_count_text(size)}, its value has {size - end + value_walker.pos}",
                    start,
                )
                self.pos = end
        node.end = self.pos
        self.path.pop()
        return tag
