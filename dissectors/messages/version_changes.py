"""Find out from the layouts what each version of an API changes: fields added, removed or made nullable."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import schemas
from dissectors.messages.message import api_layouts
from dissectors.wire.layout import Field, Layout


def version_changes(api_key: int, version: int) -> list[str]:
    """Return the differences from the previous version, as clauses.

    Examples: ``request adds rebalance_timeout_ms``, ``response adds members[].group_instance_id``, ``flexible``. The
    list is empty for the first version and for a version with an unchanged layout.
    """
    new_layouts, old_layouts = api_layouts(api_key, version), api_layouts(api_key, version - 1)
    if new_layouts is None or old_layouts is None:
        return []
    changes = ["flexible"] if new_layouts.request.flexible and not old_layouts.request.flexible else []
    for side, old_layout, new_layout in (
        ("request", old_layouts.request, new_layouts.request),
        ("response", old_layouts.response, new_layouts.response),
    ):
        changes += (f"{side} {change}" for change in _changes(dict(_fields(old_layout)), dict(_fields(new_layout))))
    return changes


def version_notes(api_key: int) -> list[tuple[int, str]]:
    """Return what each version of an API changes, except the first, with the KIPs that introduced it; oldest first."""
    api = schemas.api(api_key)
    if api is None:
        return []
    notes = []
    for version in [*api.versions][1:]:
        changes = "; ".join(version_changes(api_key, version)) or "same layout as before"
        kips = ", ".join(f"KIP-{number}" for number in schemas.kips(api.name, version))
        notes.append((version, f"{changes} ({kips})" if kips else changes))
    return notes


def _fields(layout: Layout, prefix: str = "") -> Iterator[tuple[str, Field]]:
    for field in (*layout.fields, *layout.tagged):
        path = f"{prefix}{field.name}{'[]' if field.array else ''}"
        yield path, field
        if field.struct is not None:
            yield from _fields(field.struct, f"{path}.")


def _changes(old_fields: dict[str, Field], new_fields: dict[str, Field]) -> Iterator[str]:
    if added := _outermost(path for path in new_fields if path not in old_fields):
        yield f"adds {', '.join(added)}"
    if removed := _outermost(path for path in old_fields if path not in new_fields):
        yield f"removes {', '.join(removed)}"
    if nullable := [
        path
        for path, field in new_fields.items()
        if path in old_fields and field.nullable and not old_fields[path].nullable
    ]:
        yield f"allows null for {', '.join(nullable)}"


def _outermost(paths: Iterator[str]) -> list[str]:
    """Return the paths that are not nested inside another of the paths."""
    outermost: list[str] = []
    for path in paths:
        if not any(path.startswith(f"{ancestor}.") for ancestor in outermost):
            outermost.append(path)
    return outermost
