"""Merge the messages of two releases: all versions of both, each from the newer definition if both have it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dissectors.schemas.importer.definitions import RANGES, Field, Message
from dissectors.schemas.versions import VersionRange

Messages = dict[str, Message]


@dataclass(frozen=True, slots=True)
class _Scope:
    """The versions of a merged message taken from the older and the newer release, and the versions that both have."""

    older: frozenset[int]
    newer: frozenset[int]
    common_versions: frozenset[int]


def union(older: Mapping[str, Message], newer: Mapping[str, Message]) -> tuple[Messages, list[str]]:
    """Merge the messages, by name, of two releases or of two unions.

    Renamed messages are recognised by API key, renamed fields by position; the newer name wins.

    Returns:
        The messages, and a sentence for each version that both have with different bytes.

    Raises:
        ValueError: They contradict each other about a version that only the older one has.
    """
    renamed = _renamed_messages(older, newer)
    united = dict(newer)
    notes: list[str] = []
    for name, message in older.items():
        successor = newer.get(renamed.get(name, name))
        if successor is None:
            united[name] = message
        else:
            united[successor["name"]] = _unite(message, successor)
            notes += _incompatibilities(message, successor)
    return united, notes


def _renamed_messages(older: Mapping[str, Message], newer: Mapping[str, Message]) -> dict[str, str]:
    """Return the new name, by old name, of messages with the same component, type and API key."""

    def identity(message: Message) -> tuple[Any, ...]:
        return message["component"], message["type"], message["apiKey"]

    added_messages = {
        identity(message): name for name, message in newer.items() if name not in older and "apiKey" in message
    }
    removed_messages = {name: message for name, message in older.items() if name not in newer and "apiKey" in message}
    return {
        name: added_messages[identity(message)]
        for name, message in removed_messages.items()
        if identity(message) in added_messages
    }


def _unite(older: Message, newer: Message) -> Message:
    served = {**older["served"], **newer["served"]}
    if _was_numbered_by_type(older, newer):
        return {**newer, "served": served}
    scope = _Scope(older["versions"] - newer["versions"], newer["versions"], older["versions"] & newer["versions"])
    for version in scope.older:
        if (version in VersionRange.parse(older["flexible"])) != (version in VersionRange.parse(newer["flexible"])):
            raise ValueError(f"{newer['name']} v{version} is flexible in one release only")
    united = {**newer, "versions": older["versions"] | newer["versions"], "served": served}
    deprecated = {**older.get("deprecated", {}), **newer.get("deprecated", {})}
    aliases = dict(older.get("aliases", {}))
    if older["name"] != newer["name"]:
        aliases |= {release: older["name"] for release in older["served"] if release not in aliases}
    if deprecated:
        united["deprecated"] = deprecated
    if aliases:
        united["aliases"] = aliases
    united["fields"] = _unite_fields(older["fields"], newer["fields"], scope)
    return united


def _was_numbered_by_type(older: Message, newer: Message) -> bool:
    """Whether these are coordinator keys that stored the record type as the version, as up to 3.9."""
    return bool(newer["type"] == "coordinator-key" != older["type"])


def _unite_fields(older: Sequence[Field], newer: Sequence[Field], scope: _Scope) -> list[Field]:
    united_fields = (_unite_field(old, new, scope) for old, new in aligned(older, newer, scope.common_versions))
    return [field for field in united_fields if field["versions"]]


def _unite_field(old: Field | None, new: Field | None, scope: _Scope) -> Field:
    base = new or old
    assert base is not None
    united = dict(base)
    for key in RANGES:
        from_older = old[key] & scope.older if old else frozenset()
        united[key] = from_older | (new[key] & scope.newer if new else frozenset())
    if "fields" in base:
        united["fields"] = _unite_fields(old["fields"] if old else (), new["fields"] if new else (), scope)
    return united


def aligned(
    older: Sequence[Field], newer: Sequence[Field], common_versions: frozenset[int]
) -> Iterator[tuple[Field | None, Field | None]]:
    """Yield pairs of equal fields in an order consistent with both lists, with None for a field that one side lacks.

    Fields with different names are equal if they have the same type, tag and position between other fields, and the
    same versions among `common_versions`.
    """
    matcher = difflib.SequenceMatcher(
        None, [*map(_name_and_kind, older)], [*map(_name_and_kind, newer)], autojunk=False
    )
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "equal":
            yield from zip(older[i1:i2], newer[j1:j2], strict=True)
        else:
            yield from _renamed_fields(older[i1:i2], newer[j1:j2], common_versions)


def _renamed_fields(
    older: Sequence[Field], newer: Sequence[Field], common_versions: frozenset[int]
) -> Iterator[tuple[Field | None, Field | None]]:
    start = 0
    for old in older:
        for index in range(start, len(newer)):
            if _same_bytes(old, newer[index], common_versions):
                yield from ((None, new) for new in newer[start:index])
                yield old, newer[index]
                start = index + 1
                break
        else:
            yield old, None
    yield from ((None, new) for new in newer[start:])


def _same_bytes(old: Field, new: Field, common_versions: frozenset[int]) -> bool:
    versions = old["versions"] & common_versions
    return (
        bool(versions)
        and versions == new["versions"] & common_versions
        and _kind(old) == _kind(new)
        and old.get("tag") == new.get("tag")
    )


def _kind(field: Field) -> str:
    """Return the type without the struct's name, which is not on the wire."""
    array = "[]" if field["type"].startswith("[]") else ""
    return f"{array}struct" if "fields" in field else field["type"]


def _name_and_kind(field: Field) -> tuple[str, str]:
    return field["name"], _kind(field)


def _incompatibilities(older: Message, newer: Message) -> Iterator[str]:
    if not _was_numbered_by_type(older, newer):
        for version in sorted(older["versions"] & newer["versions"]):
            if not _have_same_bytes(older["fields"], newer["fields"], version):
                releases_text = f"{_releases(older)} and in {_releases(newer)}"
                yield f"{newer['name']} v{version} is encoded differently in {releases_text}"


def _releases(message: Message) -> str:
    return ", ".join(message["served"])


def _have_same_bytes(older: Sequence[Field], newer: Sequence[Field], version: int) -> bool:
    """Whether the fields have the same encoding at this version, apart from tagged fields that only one side has."""
    old, new = _by_position(older, version), _by_position(newer, version)
    if {position for position in old.keys() ^ new.keys() if position[0] == "untagged"}:
        return False
    return all(
        _kind(old[position]) == _kind(new[position])
        and (version in old[position]["nullableVersions"]) == (version in new[position]["nullableVersions"])
        and _have_same_bytes(old[position].get("fields", ()), new[position].get("fields", ()), version)
        for position in old.keys() & new.keys()
    )


def _by_position(fields: Sequence[Field], version: int) -> dict[tuple[str, int], Field]:
    present = [field for field in fields if version in field["versions"]]
    tagged = {("tag", field["tag"]): field for field in present if version in field["taggedVersions"]}
    untagged = [field for field in present if version not in field["taggedVersions"]]
    return {**tagged, **{("untagged", index): field for index, field in enumerate(untagged)}}
