"""Edits as text: ``KIND[:PARAMETERS]``, such as ``moved:throttle_time_ms:last``, or JSON.

Details that depend on a specific layout (e.g. a field's index) are looked up there, so one text applies to versions
with different layouts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from dissectors.wire.edit import KINDS, Edit, EditError, parse
from dissectors.wire.layout import Layout

#: Creates the edit for the layout of a body; raises EditError if the layout lacks the field.
EditMaker: TypeAlias = Callable[[Layout], Edit]

#: The parameters of each kind of edit. The first is a field unless the edit applies to the whole frame.
PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "field_moved": ("FIELD", "PLACE"),
    "field_missing": ("FIELD",),
    "field_duplicated": ("FIELD", "PLACE"),
    "field_from_version": ("FIELD", "VERSION", "PLACE"),
    "int_width": ("FIELD", "TYPE"),
    "body_version": ("VERSION",),
    "generic_error_body": (),
    "header_version": ("VERSION",),
    "duplicated_prefix": ("size|correlation_id",),
    "truncated": ("BYTES",),
    "trailing_bytes": ("BYTES",),
    "flexibility": ("fixed|compact",),
    "length_encoding": ("FIELD", "fixed|compact"),
    "length_off_by_one": ("FIELD", "DELTA"),
    "null_in_non_nullable": ("FIELD",),
    "null_as_empty": ("FIELD",),
    "tag_buffer_missing": ("FIELD",),
    "tag_buffer_extra": ("FIELD",),
    "tag_below_version": ("FIELD", "TAG"),
    "tag_size": ("FIELD", "TAG", "DELTA"),
    "tag_order": ("FIELD", "TAG"),
    "record_encoding": ("FIELD", "WAY"),
}

#: The kinds as people write them.
KIND_NAMES: Final = tuple(name.removeprefix("field_") for name in PARAMETERS)

#: Named positions among sibling fields.
_PLACES: Final = {"first": 0, "last": -1}


def edit_of(text: str) -> EditMaker:
    """Parse the notation of an edit; return a function that creates the edit for a layout.

    Raises:
        EditError: The text is invalid; the message lists the kinds, or shows the parameters of the kind.
    """
    if text.startswith("{"):
        try:
            edit = parse(json.loads(text))
        except json.JSONDecodeError as error:
            raise EditError(f"invalid JSON: {error}") from None
        return lambda body: edit
    name, *parameters = text.split(":")
    kind = kind_of(name)
    if kind is None:
        raise EditError(f"unknown kind {name!r}; use one of {', '.join(KIND_NAMES)}")
    return edit_for(kind, parameters)


def kind_of(text: str) -> str | None:
    """Return the kind of edit with that name, None if there is none; ``moved`` and ``field_moved`` are the same."""
    return next((name for name in PARAMETERS if text in (name, name.removeprefix("field_"))), None)


def edit_for(kind: str, parameters: Sequence[str]) -> EditMaker:
    """Return a function that creates the edit for the layout of a body.

    Raises:
        EditError: Invalid parameters. The returned function also raises it if the layout lacks the field.
    """
    expected = PARAMETERS[kind]
    if not len(expected) - len(KINDS[kind].defaults) <= len(parameters) <= len(expected):
        raise EditError(f"{kind} takes {':'.join(expected) or 'nothing'}, not {':'.join(parameters) or 'nothing'}")
    values = dict(zip(expected, parameters, strict=False))
    field = values.get("FIELD", "header" if kind == "header_version" else "*")
    for name in ("VERSION", "BYTES", "DELTA", "TAG"):
        if name in values and not values[name].lstrip("+-").isdecimal():
            raise EditError(f"{name} of {kind} is a number, not {values[name]!r}")
    if (place := values.get("PLACE")) is not None and place not in _PLACES and not place.isdecimal():
        raise EditError(f"PLACE of {kind} is first, last or an index, not {place!r}")

    def make_edit(body: Layout) -> Edit:
        return Edit.of(kind, _target_field(kind, field), **_parse_details(kind, field, values, body))

    return make_edit


def _target_field(kind: str, field: str) -> str:
    return "header.correlation_id" if kind == "duplicated_prefix" else field


def _parse_details(kind: str, field: str, values: dict[str, str], body: Layout) -> dict[str, Any]:
    details: dict[str, Any] = {}
    for name in KINDS[kind].details:
        match name:
            case "from":
                details["from_"] = _find_index(body, field)
            case "where" if kind == "field_missing":
                details[name] = _find_index(body, field)
            case "where" | "place" | "to":
                details[name] = _resolve_index(body, field, values["PLACE"], is_move=kind == "field_moved")
            case "from_version" | "body_version":
                details[name] = int(values["VERSION"])
            case "delta" if "DELTA" not in values:
                pass  # it has a default
            case "bytes" | "delta" | "tag":
                details[name] = int(values[name.upper()])
            case "header" | "nullable_from":
                details[name] = None
            case "prefix":
                details[name] = values["size|correlation_id"]
            case "written" if kind == "header_version":
                details[name] = int(values["VERSION"])
            case "written":
                details[name] = next(values[key] for key in ("TYPE", "WAY", "fixed|compact") if key in values)
    return details


def _find_struct(body: Layout, field: str) -> tuple[Layout, str]:
    """Return the struct that contains a field, and the field's name."""
    *struct_names, name = field.replace("[]", "").split(".")
    struct = body
    for struct_name in struct_names:
        inner = next((field.struct for field in struct.fields if field.name == struct_name), None)
        if inner is None:
            raise _unknown_field(body, field, struct, struct_name)
        struct = inner
    return struct, name


def _find_index(body: Layout, field: str) -> int:
    struct, name = _find_struct(body, field)
    for index, sibling in enumerate(struct.fields):
        if sibling.name == name:
            return index
    raise _unknown_field(body, field, struct, name)


def _unknown_field(body: Layout, field: str, struct: Layout, name: str) -> EditError:
    names = [sibling.name for sibling in struct.fields]
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"the fields of {struct.name} are {', '.join(names)}"
    return EditError(f"{body.name} has no {field}; {hint}")


def _resolve_index(body: Layout, field: str, place: str, *, is_move: bool) -> int:
    index = _PLACES[place] if place in _PLACES else int(place)
    count = len(_find_struct(body, field)[0].fields)
    return (count - 1 if is_move else count) if index < 0 else index
