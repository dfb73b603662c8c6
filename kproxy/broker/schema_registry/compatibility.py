"""Compatibility of a new schema with the versions of its subject, which is only checked for Avro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dissectors.values import Schema
from dissectors.values.avro_compatibility import incompatibility
from dissectors.values.avro_schema import parse
from dissectors.values.errors import SchemaError

DEFAULT_LEVEL: Final = "BACKWARD"
LEVELS: Final = (
    "NONE", "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE",
)  # fmt: skip


class CompatibilityResult(NamedTuple):
    """Whether a schema may be registered, and a sentence for each reason, or one if nothing was checked."""

    is_compatible: bool
    messages: list[str]


def compare_versions(level: str, new: Schema, versions: Sequence[tuple[int, Schema]]) -> CompatibilityResult:
    """Compare a new schema with older versions, the oldest first. This may take several seconds.

    Args:
        level: One of `LEVELS`.
        new: The new schema, which must be valid.
        versions: The numbers and schemas of the versions. Unless the level is transitive, only the last one counts.
    """
    if level == "NONE" or not versions:
        return CompatibilityResult(True, [])
    messages = []
    is_compatible = True
    for number, old_schema in versions if level.endswith("_TRANSITIVE") else versions[-1:]:
        if old_schema.type != new.type:
            messages.append(f"version {number} is of type {old_schema.type}, the new schema of type {new.type}")
            is_compatible = False
        elif new.type != "AVRO":
            messages.append(f"not compared with version {number}: kproxy compares Avro schemas alone")
        else:
            differences = _differences(level, new, old_schema)
            messages += [f"{difference} (version {number})" for difference in differences]
            is_compatible = is_compatible and not differences
    return CompatibilityResult(is_compatible, messages)


def _differences(level: str, new_schema: Schema, old_schema: Schema) -> list[str]:
    try:
        parsed_new, parsed_old = parse(new_schema), parse(old_schema)
    except SchemaError as error:
        return [f"a schema cannot be read: {error}"]
    problems = []
    if not level.startswith("FORWARD") and (problem := incompatibility(parsed_new, parsed_old)) is not None:
        problems.append(f"the new schema cannot read data of the old one: {problem}")
    if not level.startswith("BACKWARD") and (problem := incompatibility(parsed_old, parsed_new)) is not None:
        problems.append(f"the old schema cannot read data of the new one: {problem}")
    return problems
