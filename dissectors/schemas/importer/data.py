"""The data files of the schemas: created from releases, written in one canonical form, and parsed for comparison."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dissectors.schemas.importer import codes
from dissectors.schemas.importer.definitions import RANGES, Field, Message, read_definition
from dissectors.schemas.importer.kips import Kips, kips
from dissectors.schemas.importer.union import union
from dissectors.schemas.versions import VersionRange

MESSAGES, APIS, ERRORS, ENUMS, KIPS, CODES = FILES = (
    "messages.jsonl", "apis.json", "errors.json", "enums.json", "kips.json", "codes.py",
)  # fmt: skip

_TYPES = ("header", "request", "response", "data", "metadata", "coordinator-key", "coordinator-value")
_MESSAGE_KEYS = ("name", "type", "apiKey", "component", "versions", "served", "flexible", "deprecated", "aliases")
_FIELD_KEYS = ("name", "type", "versions", "nullableVersions", "flexibleVersions", "taggedVersions", "tag", "default",
               "entityType", "mapKey", "ignorable", "zeroCopy")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Release:
    """The imported data of one Kafka release.

    `definitions` are (component, text of a definition file); `facts` is the parsed output of ``Facts.java``: ``apis``,
    ``errors`` and ``enums``.
    """

    name: str
    definitions: Sequence[tuple[str, str]]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaData:
    """The content of the data files as JSON values: messages, enums and APIs' KIPs by name, the rest by number."""

    messages: Mapping[str, Mapping[str, Any]]
    apis: Mapping[int, Mapping[str, Any]]
    errors: Mapping[int, Mapping[str, Any]]
    enums: Mapping[str, Mapping[str, str]]
    kips: Mapping[str, Kips]

    @classmethod
    def parse(cls, files: Mapping[str, bytes]) -> SchemaData:
        """Parse the output of `files`."""
        messages = (json.loads(line) for line in files[MESSAGES].splitlines())
        return cls(
            {message["name"]: message for message in messages},
            {api["key"]: api for api in json.loads(files[APIS])},
            {error["code"]: error for error in json.loads(files[ERRORS])},
            json.loads(files[ENUMS]),
            json.loads(files[KIPS]),
        )

    def files(self) -> dict[str, bytes]:
        """Return the content of each file by name; equal data give equal bytes."""
        enums = [f"{dump(name)}:{dump(table)}" for name, table in self.enums.items()]
        return {
            MESSAGES: "".join(f"{dump(message)}\n" for message in self.messages.values()).encode(),
            APIS: one_item_per_line("[]", map(dump, self.apis.values())),
            ERRORS: one_item_per_line("[]", map(dump, self.errors.values())),
            ENUMS: one_item_per_line("{}", enums),
            KIPS: one_item_per_line("{}", [f"{dump(api)}:{dump(versions)}" for api, versions in self.kips.items()]),
            CODES: codes.module(self.errors, self.apis),
        }


def merge_releases(releases: Sequence[Release]) -> tuple[SchemaData, list[str]]:
    """Merge releases, oldest first; if they differ, the newer one wins.

    Returns:
        The data, and notes on differences to review.

    Raises:
        ValueError: Releases contradict each other, or a definition is invalid; the message names it.
    """
    messages: dict[str, Message] = {}
    notes: list[str] = []
    for release in releases:
        messages, new_notes = union(messages, _messages(release))
        notes += new_notes
    compact = {message["name"]: _compact_message(message) for message in sorted(messages.values(), key=_sort_key)}
    flexible = {message["apiKey"]: message["flexible"] for message in compact.values() if message["type"] == "request"}
    all_facts = [release.facts for release in releases]
    errors = {error["code"]: error for release_facts in all_facts for error in release_facts["errors"]}
    tables = sorted({name for release_facts in all_facts for name in release_facts["enums"]})
    data = SchemaData(
        compact,
        _apis(releases, flexible),
        {code: errors[code] for code in sorted(errors)},
        {name: _table([release_facts["enums"].get(name, {}) for release_facts in all_facts]) for name in tables},
        kips(text for release in releases for _, text in release.definitions),
    )
    return data, notes


def _messages(release: Release) -> dict[str, Message]:
    messages: dict[str, Message] = {}
    for component, text in release.definitions:
        try:
            message = read_definition(text, component, release.name)
        except (KeyError, ValueError) as error:
            raise ValueError(f"a definition in {component} {release.name} cannot be read: {error!r}") from error
        if message is not None:
            if message["name"] in messages:
                raise ValueError(f"{release.name} defines {message['name']} twice")
            messages[message["name"]] = message
    return messages


def _sort_key(message: Message) -> tuple[int, int, str]:
    return _TYPES.index(message["type"]), message.get("apiKey", -1), message["name"]


def _compact_message(message: Message) -> dict[str, Any]:
    versions: frozenset[int] = message["versions"]
    cleaned = {key: message[key] for key in _MESSAGE_KEYS if key in message}
    cleaned["versions"] = str(_version_range(versions, message["name"]))
    cleaned["fields"] = [_compact_field(field, max(versions)) for field in message["fields"]]
    return cleaned


def _compact_field(field: Field, highest: int) -> dict[str, Any]:
    cleaned = {key: field[key] for key in _FIELD_KEYS if key in field and (field[key] or key not in RANGES)}
    for key in RANGES:
        if key in cleaned:
            version_range = _version_range(cleaned[key], field["name"])
            cleaned[key] = f"{version_range.lowest}+" if version_range.highest == highest else str(version_range)
    if "fields" in field:
        cleaned["fields"] = [_compact_field(inner, highest) for inner in field["fields"]]
    return cleaned


def _version_range(versions: frozenset[int], name: str) -> VersionRange:
    version_range = VersionRange(min(versions), max(versions))
    if len(versions) != len([*version_range]):
        raise ValueError(f"the versions of {name} have a hole: {sorted(versions)}")
    return version_range


def _apis(releases: Sequence[Release], flexible: Mapping[int, str]) -> dict[int, Mapping[str, Any]]:
    served_by_key: dict[int, dict[str, Mapping[str, Any]]] = {}
    for release in releases:
        for api in release.facts["apis"]:
            served_by_key.setdefault(api["key"], {})[release.name] = api
    return {key: _api(served_by_key[key], VersionRange.parse(flexible[key])) for key in sorted(served_by_key)}


def _api(served: Mapping[str, Mapping[str, Any]], flexible: VersionRange) -> dict[str, Any]:
    newest = [*served.values()][-1]
    aliases = {release: api["name"] for release, api in served.items() if api["name"] != newest["name"]}
    headers = {version: pair for api in served.values() for version, pair in api["headers"].items()}
    exceptions = {v: pair for v, pair in headers.items() if pair != ([2, 1] if int(v) in flexible else [1, 0])}
    keys = ("min", "max", "stable", "listeners")
    return {
        "key": newest["key"],
        "name": newest["name"],
        "flexible": flexible.lowest,
        "releases": {release: {key: api[key] for key in keys} for release, api in served.items()},
        **({"aliases": aliases} if aliases else {}),
        **({"headers": exceptions} if exceptions else {}),
    }


def _table(tables: Sequence[Mapping[str, str]]) -> dict[str, str]:
    united = {code: name for table in tables for code, name in table.items()}
    return {code: united[code] for code in sorted(united, key=int)}


def dump(value: object) -> str:
    """Return compact JSON, as in the data files."""
    return json.dumps(value, separators=(",", ":"))


def one_item_per_line(brackets: str, items: Iterable[str]) -> bytes:
    """Return a JSON array or object with one line per item, so that diffs show the changed items."""
    inner = ",\n".join(items)
    return f"{brackets[0]}\n{inner}\n{brackets[1]}\n".encode()
