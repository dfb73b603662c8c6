"""Frames of any API version of which one part can be made as large as wanted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from dissectors.wire.layout import Field, Layout
from dissectors.wire.primitives import uuid_text

#: The path of the part that grows: names of fields, from the body or from ``header``.
Path = tuple[str, ...]

TAGS = "_tags"
_FIRST_UNKNOWN_TAG = 10_000


@dataclass(frozen=True, slots=True)
class Growing:
    """A part of a message that grows.

    Args:
        path: Its place: an array, a string, bytes, records, or the tag buffer of a struct.
        errors: Whether error codes are set, each time another one.
    """

    path: Path
    errors: bool = False

    def __str__(self) -> str:
        return ".".join(self.path) + (" with errors" if self.errors else "")


def parts(layout: Layout, path: Path = ()) -> Iterator[Path]:
    """All parts of a message that can grow."""
    if layout.flexible:
        yield (*path, TAGS)
    for one in (*layout.fields, *layout.tagged):
        place = (*path, one.name)
        if one.array or one.type in ("string", "bytes", "records"):
            yield place
        if one.struct is not None:
            yield from parts(one.struct, place)


class Values:
    """Makes the values of a message: every array has one element but the one that grows.

    All values differ, so that nothing counts as a repeat.
    """

    def __init__(self, growing: Growing, size: int, *, payload: Any = None) -> None:
        self._growing, self._size = growing, size
        self._numbers = count(1)
        self._payload = payload

    def struct(self, layout: Layout, path: Path = ()) -> dict[str, Any]:
        """The values of a struct at a path. Its tagged fields are on the wire if they hold the part that grows."""
        made = {one.name: self._field(one, (*path, one.name)) for one in layout.fields}
        grows = self._growing.path
        for one in layout.tagged:
            if grows[: len(path) + 1] == (*path, one.name):
                made[one.name] = self._field(one, (*path, one.name))
        if (*path, TAGS) == grows:
            made[TAGS] = [[_FIRST_UNKNOWN_TAG + index, b"x"] for index in range(self._size)]
        return made

    def _field(self, one: Field, path: Path) -> Any:
        number = self._size if path == self._growing.path else 1
        if not one.array:
            return self._value(one, path, number)
        return [self._value(one, path, 1) for _ in range(number)]

    def _value(self, one: Field, path: Path, size: int) -> Any:
        number = next(self._numbers)
        if one.struct is not None:
            return self.struct(one.struct, path)
        if one.name == "error_code" or one.name.endswith("_error_code"):
            return number % 100 + 1 if self._growing.errors else 0
        if one.name == "protocol_type":
            return "consumer"
        if one.type == "string":
            return f"{one.name}-{number}" + "x" * (size - 1)
        if one.type in ("bytes", "records"):
            return self._payload(size) if self._payload else bytes(size)
        if one.type == "bool":
            return False
        if one.type == "uuid":
            return uuid_text(number.to_bytes(16, "big"))
        return float(number) if one.type == "float64" else number % 100
