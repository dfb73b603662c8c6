"""The changes made by a new import, as lines to review: ``+`` added, ``-`` removed, ``~`` changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dissectors.schemas.importer.data import SchemaData

Json = Mapping[str, Any]


def changes(present: SchemaData, imported: SchemaData) -> list[str]:
    """Return the differences between the present and the imported data; empty if they are equal.

    An added release takes one line; apart from that, only its changes are listed.
    """
    before, after = _releases(present), _releases(imported)
    lines = [] if before == after else [f"~ releases: {', '.join(before) or 'none'} -> {', '.join(after) or 'none'}"]
    lines += _keyed_changes("API", present.apis, imported.apis, ("name", "flexible", "headers"))
    lines += _served_changes(present, imported)
    lines += _message_changes(present.messages, imported.messages)
    lines += _keyed_changes("error", present.errors, imported.errors, ("name", "retriable", "invalid_metadata"))
    for table in sorted({*present.enums, *imported.enums}):
        codes = [
            {code: {"name": name} for code, name in data.enums.get(table, {}).items()} for data in (present, imported)
        ]
        lines += _keyed_changes(table, codes[0], codes[1], ("name",))
    for api in sorted({*present.kips, *imported.kips}):
        lines += _differences("KIPs of versions", present.kips, imported.kips, (api,))
    return lines


def _releases(data: SchemaData) -> list[str]:
    header = data.messages.get("RequestHeader", {"served": {}})
    return [*header["served"]]


def _keyed_changes(
    label: str, present: Mapping[Any, Json], imported: Mapping[Any, Json], keys: Sequence[str]
) -> Iterator[str]:
    for key in sorted(imported.keys() - present.keys(), key=int):
        yield f"+ {label} {key} {imported[key]['name']}"
    for key in sorted(present.keys() - imported.keys(), key=int):
        yield f"- {label} {key} {present[key]['name']}"
    for key in sorted(present.keys() & imported.keys(), key=int):
        yield from _differences(f"{label} {key} {present[key]['name']}", present[key], imported[key], keys)


def _differences(subject: str, before: Json, after: Json, keys: Sequence[str]) -> Iterator[str]:
    for key in keys:
        if before.get(key) != after.get(key) or (key in before) != (key in after):
            old, new = (str(row[key]) if key in row else "nothing" for row in (before, after))
            yield f"~ {subject}: {key} {old} -> {new}"


def _served_changes(present: SchemaData, imported: SchemaData) -> Iterator[str]:
    """Yield the APIs whose versions differ within a release that both contain, or between their newest releases."""
    before, after = _releases(present), _releases(imported)
    pairs = [(release, release) for release in before if release in after]
    if before and after and before[-1] != after[-1]:
        pairs.append((before[-1], after[-1]))
    for key in sorted(present.apis.keys() & imported.apis.keys()):
        for older, newer in pairs:
            old, new = present.apis[key]["releases"].get(older), imported.apis[key]["releases"].get(newer)
            if old != new:
                name = imported.apis[key]["name"]
                yield f"~ API {key} {name}: {_served_text(older, old)} -> {_served_text(newer, new)}"


def _served_text(release: str, served: Json | None) -> str:
    if served is None:
        return f"not in {release}"
    stable_text = "" if served["stable"] == served["max"] else f", stable to {served['stable']}"
    return f"{served['min']}-{served['max']} in {release}{stable_text} ({', '.join(served['listeners'])})"


def _message_changes(present: Mapping[str, Json], imported: Mapping[str, Json]) -> Iterator[str]:
    predecessors = {alias: name for name, message in imported.items() for alias in message.get("aliases", {}).values()}
    renamed = {predecessors[name]: name for name in present.keys() - imported.keys() if name in predecessors}
    for name, message in imported.items():
        before = present.get(renamed.get(name, name))
        if before is None:
            yield f"+ message {name} ({message['type']} of {message['component']}, {message['versions']})"
            continue
        keys = ("name", "type", "apiKey", "component", "versions", "flexible", "deprecated", "aliases")
        yield from _differences(f"message {name}", before, message, keys)
        yield from _field_changes(f"{name}: ", before["fields"], message["fields"])
    for name in present:
        if name not in imported and name not in renamed.values():
            yield f"- message {name}"


def _field_changes(prefix: str, before: Sequence[Json], after: Sequence[Json]) -> Iterator[str]:
    removed_fields = [field for field in before if field["name"] not in {later_field["name"] for later_field in after}]
    present = {field["name"]: field for field in before}
    for field in after:
        old = present.get(field["name"]) or next(
            (other for other in removed_fields if _shape(other) == _shape(field)), None
        )
        path = prefix + field["name"]
        if old is None:
            yield f"+ {path} ({field['type']}, {field['versions']})"
            continue
        if old in removed_fields:
            removed_fields.remove(old)
        # The path has the new name: a renamed field shows as `name Old -> New`.
        keys = [key for key in {**old, **field} if key != "fields"]
        yield from _differences(path, old, field, keys)
        array = "[]" if field["type"].startswith("[]") else ""
        yield from _field_changes(f"{path}{array}.", old.get("fields", ()), field.get("fields", ()))
    for field in removed_fields:
        yield f"- {prefix}{field['name']} ({field['type']}, {field['versions']})"
    order = [field["name"] for field in after if field["name"] in present]
    if order != [field["name"] for field in before if field["name"] in set(order)]:
        yield f"~ {prefix}order of fields {', '.join(order)}"


def _shape(field: Json) -> tuple[Any, ...]:
    """Return the properties of a field that do not change when it is renamed."""
    return field["type"], field["versions"], field.get("tag"), field.get("nullableVersions")
