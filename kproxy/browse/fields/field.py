"""FieldView: a node in the tree of a frame's fields. Children are created on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from dissectors.wire.paths import parts
from kproxy.outputs.text import value_text

#: Maximum number of children of one field; the rest are children of an extra last child of kind `MORE`.
PAGE = 500
MORE = "more"

#: Maximum number of `MORE` fields that a search by byte or path opens.
MAX_PAGES = 40

#: Creates the children of a field.
Produce = Callable[[], Iterator["FieldView"]]


class FieldView:
    """A field of a message: a leaf with a value, or a struct, array, payload, batch or record with children.

    Attributes:
        name: The name as in the path; ``[2]`` for an element of an array.
        path: The path as in findings, e.g. ``topics[2].name``; ``header.client_id`` in the header.
        start: First byte, counted from the frame's length prefix; None if the field has no bytes to show. Fields
            decoded from compressed bytes have the span of those bytes.
        end: One past the last byte.
        value: The decoded value; bytes for payloads and record data; None for null, structs and arrays.
        kind: The wire type: ``int32``, ``compact nullable string``, ``varint``; empty if unknown.
        meaning: The value in words, or why it could not be decoded.
        count: The declared number of elements of an array; None for other kinds.
        decoded: The object of a decoded key, value or header of a record (docs/payloads.md).
    """

    __slots__ = (
        "_children",
        "_produce",
        "count",
        "decoded",
        "end",
        "kind",
        "meaning",
        "name",
        "path",
        "start",
        "value",
    )

    def __init__(
        self,
        name: str,
        path: str,
        span: tuple[int, int] | None = None,
        value: Any = None,
        *,
        kind: str = "",
        meaning: str | None = None,
        count: int | None = None,
        produce: Produce | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.start = span[0] if span else None
        self.end = span[1] if span else None
        self.value = value
        self.kind = kind
        self.meaning = meaning
        self.count = count
        self.decoded: Mapping[str, Any] | None = None
        self._produce = produce
        self._children: list[FieldView] | None = None if produce else []

    @property
    def children(self) -> list[FieldView]:
        """The fields inside, created on first use, `PAGE` at a time; the last one may hold the rest."""
        if self._children is None:
            assert self._produce is not None
            remaining = self._produce()
            self._children = list(islice(remaining, PAGE))
            self._produce = None
            if (next_field := next(remaining, None)) is not None:
                self._children.append(self._more_field(next_field, remaining))
        return self._children

    def _more_field(self, first: FieldView, remaining: Iterator[FieldView]) -> FieldView:
        count = None if self.count is None else self.count - PAGE
        span = None if first.start is None or self.end is None else (first.start, self.end)
        return FieldView("…", self.path, span, kind=MORE, count=count, produce=lambda: chain([first], remaining))

    @property
    def is_leaf(self) -> bool:
        """Whether the field has no children. May decode the field's bytes to find out."""
        return self._children == []

    @property
    def text(self) -> str:
        """The value as one short line: ``42``, ``"orders"``, ``3 elements``; for an array element, its first value."""
        if self.kind == MORE:
            return "more" if self.count is None else f"{self.count:,} more"
        if self.count is not None:
            return {0: "empty", 1: "1 element"}.get(self.count, f"{self.count:,} elements")
        if self.value is not None or self.is_leaf:
            return value_text(self.value)
        if self.name.startswith("[") and not self.meaning:
            first = next((child for child in self.children if child.is_leaf), None)
            return f"{first.name} {first.text}" if first is not None else ""
        return ""

    def __repr__(self) -> str:
        return f"<Field {self.path} {self.kind} {self.start}..{self.end} {self.text}>"


def fields_at_offset(fields: Iterable[FieldView], offset: int) -> list[FieldView]:
    """Return the fields that contain the byte at `offset`, outermost first, stopping at compressed fields."""
    path_fields: list[FieldView] = []
    while True:
        matches = [field for field in fields if field.start is not None and field.start <= offset < (field.end or 0)]
        if (
            not matches
            or (path_fields and len(matches) > 1)
            or sum(field_view.kind == MORE for field_view in path_fields) > MAX_PAGES
        ):
            return path_fields
        path_fields.append(matches[0])
        fields = matches[0].children


def ancestors(fields: list[FieldView], path: str) -> list[FieldView]:
    """Return the fields on a path, outermost first and the field itself last, as far as they exist.

    Includes `MORE` fields.
    """
    names = parts(path)
    body = next((field for field in fields if field.name == "body"), None)
    path_fields: list[FieldView] = []
    if body is not None and names[:1] not in (["size"], ["header"], ["body"]):
        path_fields = [body]
    for name in names:
        new_fields = _find_child(path_fields[-1].children if path_fields else fields, {name, f"[{name}]"})
        if not new_fields:
            break
        path_fields += new_fields
    return path_fields if path_fields != [body] or names == ["body"] else []


def _find_child(fields: list[FieldView], names: set[str]) -> list[FieldView]:
    """Return the field with one of these names, after the `MORE` fields opened to reach it; empty if not found."""
    opened: list[FieldView] = []
    while True:
        field_view = next((field for field in fields if field.name in names), None)
        if field_view is not None:
            return [*opened, field_view]
        if not fields or fields[-1].kind != MORE or len(opened) > MAX_PAGES:
            return []
        opened.append(fields[-1])
        fields = fields[-1].children
