"""Checks the names in the body of a message: a misspelled one would be left out without a word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from dissectors.wire import layout as layouts
from dissectors.wire.layout import Field, Layout


def check_names(message: str, version: int, body: Mapping[str, Any], *, edited: bool = False) -> None:
    """Check that a version of a message has all fields of a body.

    A field that only other versions have may be there with its default, so that one body serves several versions.

    Args:
        message: Kafka's name, e.g. ``MetadataRequest``.
        version: One that the message has.
        body: Values by name; of other types than mappings and lists, they are not checked.
        edited: Whether an edit may write fields of other versions, so that these may have any value.

    Raises:
        ValueError: There is an unknown name; the message has its path and what may be meant.
    """
    _check_struct(_Place(message, version, edited), layouts.layout(message, version), body, "body", ())


class _Place:
    """The message and version to check."""

    def __init__(self, message: str, version: int, edited: bool) -> None:
        self.message = message
        self.version = version
        self.edited = edited

    def fields_of_other_versions(self, names: tuple[str, ...]) -> Iterator[tuple[int, Field]]:
        """Yield each version that has the field at a path of names, and the field, the newest first."""
        for version in reversed(layouts.versions(self.message)):
            struct: Layout | None = layouts.layout(self.message, version)
            field = None
            for name in names:
                field = None if struct is None else _fields(struct).get(name)
                struct = None if field is None else field.struct
            if field is not None:
                yield version, field


def _fields(struct: Layout) -> dict[str, Field]:
    return {field.name: field for field in (*struct.fields, *struct.tagged)}


def _check_struct(place: _Place, struct: Layout, values: Any, path: str, names: tuple[str, ...]) -> None:
    if not isinstance(values, Mapping):
        return  # the encoder reports it
    fields = _fields(struct)
    for name, value in values.items():
        if (field := fields.get(name)) is None:
            if name != "_tags":
                _check_other_versions(place, name, value, path, names, list(fields))
        elif field.struct is not None and field.array and isinstance(value, list | tuple):
            for index, element in enumerate(value):
                _check_struct(place, field.struct, element, f"{path}.{name}[{index}]", (*names, name))
        elif field.struct is not None:
            _check_struct(place, field.struct, value, f"{path}.{name}", (*names, name))


def _check_other_versions(
    place: _Place, name: str, value: Any, path: str, names: tuple[str, ...], known_names: list[str]
) -> None:
    matching_fields = list(place.fields_of_other_versions((*names, name)))
    if matching_fields:
        (highest, field), (lowest, _) = matching_fields[0], matching_fields[-1]
        if place.edited or value == field.default or (not value and not field.default):
            return
        hint = f"version {lowest} has it" if lowest == highest else f"versions {lowest} to {highest} have it"
    elif close := get_close_matches(str(name), known_names, n=1):
        hint = f"did you mean {close[0]}?"
    else:
        hint = f"its fields are {', '.join(known_names)}" if known_names else "it has none"
    raise ValueError(f"{path}: {place.message} v{place.version} has no field {name!r}; {hint}")
