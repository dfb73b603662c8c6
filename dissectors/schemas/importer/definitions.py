"""Read Kafka's message definitions from its jars, without their comments and descriptions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dissectors.schemas.versions import VersionRange

#: A message or a field as in the data, but with sets of versions instead of ranges.
Message = dict[str, Any]
Field = dict[str, Any]

#: The keys of a field that have version ranges.
RANGES = ("versions", "nullableVersions", "taggedVersions")
_FLAGS = ("mapKey", "ignorable", "zeroCopy")
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def parse(text: str) -> dict[str, Any]:
    """Parse JSON with comments, as in Kafka's definitions."""
    parsed: dict[str, Any] = json.loads(_STRING_OR_COMMENT.sub(lambda match: match[1] or "", text))
    return parsed


def read_definition(text: str, component: str, release: str) -> Message | None:
    """Read one definition file of one release; return None if the release has removed the message.

    Args:
        text: The file.
        component: The jar that contains it, e.g. ``kafka-clients``.
        release: E.g. ``4.4.0``.

    Raises:
        ValueError, KeyError: The file is not a message definition.

    Source: clients/src/main/resources/common/message/README.md and the generator's FieldSpec in Kafka.
    """
    source = parse(text)
    versions = frozenset(VersionRange.parse(source["validVersions"]))
    if not versions:
        return None
    shared = {struct["name"]: struct["fields"] for struct in source.get("commonStructs", ())}
    message: Message = {"name": source["name"], "type": source["type"], "component": component, "versions": versions}
    if "apiKey" in source:
        message["apiKey"] = source["apiKey"]
    message["served"] = {release: source["validVersions"]}
    message["flexible"] = source["flexibleVersions"]
    if "deprecatedVersions" in source:
        message["deprecated"] = {release: source["deprecatedVersions"]}
    message["fields"] = _fields(source["fields"], shared, versions)
    return message


def _fields(sources: Sequence[Mapping[str, Any]], shared: Mapping[str, Any], versions: frozenset[int]) -> list[Field]:
    fields = (_field(source, shared, versions) for source in sources)
    return [field for field in fields if field["versions"]]


def _field(source: Mapping[str, Any], shared: Mapping[str, Any], versions: frozenset[int]) -> Field:
    field: Field = {"name": source["name"], "type": source["type"]}
    for key in RANGES:
        # A field may state only the versions in which it is tagged.
        range_text = source.get(key) or (source["taggedVersions"] if key == "versions" else "none")
        # A field is limited to the versions of its struct, and null to the versions of the field.
        allowed = field.get("versions", versions)
        field[key] = frozenset(version for version in allowed if version in VersionRange.parse(range_text))
    for key in ("flexibleVersions", "entityType"):
        if key in source:
            field[key] = source[key]
    if field["taggedVersions"]:
        field["tag"] = int(source["tag"])
    if "default" in source:
        field["default"] = _parse_default(source["type"], source["default"])
    for key in _FLAGS:
        if source.get(key) in (True, "true"):
            field[key] = True
    inner = source.get("fields") or shared.get(source["type"].removeprefix("[]"))
    if inner:
        field["fields"] = _fields(inner, shared, field["versions"])
    return field


def _parse_default(kind: str, default: Any) -> Any:
    if default in ("null", None):
        return None
    if kind == "string":
        return default
    if kind == "bool":
        return default in (True, "true")
    return float(default) if kind == "float64" else int(str(default), 0)
