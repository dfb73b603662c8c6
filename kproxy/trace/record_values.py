"""Finds decoded keys, values and headers of records in the body of a trace line (docs/payloads.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

#: Replaces the data that `--mask` hides.
MASKED: Final = "(masked)"
#: The format of values for which a line has only the size, because it was written without `--payloads`.
WITHHELD: Final = "(withheld)"


class RecordValue(NamedTuple):
    """A key, value or header of a record.

    Attributes:
        part: ``key``, ``value`` or ``header``.
        header: The header's name.
        value: The object with ``format``, ``data``, ..., None for null.
    """

    part: str
    header: str | None
    value: Mapping[str, Any] | None


def record_values(body: Any) -> Iterator[RecordValue]:
    """Yield the decoded keys, values and headers in a body or list of bodies, except bytes and withheld ones."""
    pending = [body]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(reversed(item))
        if not isinstance(item, dict):
            continue
        parts: list[tuple[str, str | None, Any]] = [
            (part, None, item[part]) for part in ("key", "value") if part in item
        ]
        parts += [("header", _header_name(row), row.get("value")) for row in _rows(item.get("headers"))]
        if any(_is_known(value) for *_, value in parts):
            yield from (
                RecordValue(part, header, value) for part, header, value in parts if value is None or _is_known(value)
            )
        else:
            pending.extend(reversed(item.values()))


def is_decoded(item: Any) -> bool:
    """Whether an item is the object for a key, value or header, either decoded or withheld."""
    return isinstance(item, dict) and "format" in item and "data" in item


def _is_known(item: Any) -> bool:
    return is_decoded(item) and item["format"] != WITHHELD


def _header_name(header: dict[str, Any]) -> str | None:
    return name if isinstance(name := header.get("key"), str) else None


def _rows(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
