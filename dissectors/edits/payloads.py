"""Edits of what stands inside bytes: record data, and the payloads of group members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dissectors import records
from dissectors.edits.edit import Edit, EditError, kind, parse
from dissectors.edits.places import change_field, parts
from dissectors.edits.write import write
from dissectors.errors import DecodeError, EncodeError
from dissectors.layout import Field, Layout
from dissectors.layout import layout as layout_of
from dissectors.records.departures import write_departed
from dissectors.records.ways import WAYS

_VERSION_BYTES = 2  # payloads that members send each other begin with their version


def _departed(values: Mapping[str, Any], field: str, written: str) -> Mapping[str, Any]:
    def change(data: Any) -> bytes:
        return b"".join(write_departed(batch, written) for batch in records.decode(bytes(data)).batches)

    return _rewritten(values, field, change)


@kind("record_encoding", "written", sentence="{field}: {written}", values=_departed)
def record_encoding(layout: Layout, field: str, written: str) -> Layout:
    """Records of format 2 written in one of the ways that `dissectors.records.ways` lists."""
    if written not in WAYS:
        raise EditError(f"records are written wrongly as {', '.join(WAYS)}, not {written}")
    return _field(layout, field, "records")


def _inner(payload: str, edit: Mapping[str, Any], version: int) -> tuple[Edit, Layout]:
    inner = parse(edit)
    try:
        right = layout_of(payload, version)
    except KeyError as error:
        raise EditError(str(error.args[0])) from None
    return inner, right


