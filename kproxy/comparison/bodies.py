"""Compares two decoded bodies field by field."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from dissectors.wire.paths import render
from kproxy.comparison.kinds import MAY_DIFFER, ValueKind, is_unset, kind_of

#: Fields that identify an element of an array. Brokers may list elements in any order.
_IDENTITY: Final = (
    "api_key", "entity_name", "entity_type", "feature", "group_id", "index", "key", "mechanism", "name", "partition",
    "partition_id", "partition_index", "pattern_type", "principal_name", "resource_name", "resource_type",
    "subtopology_id", "topic", "topic_name", "transactional_id", "user",
)  # fmt: skip
#: Arrays in which the order of the elements matters.
_ORDERED: Final = frozenset({"records"})
_WITHHELD: Final = "(redacted, "
_MAX_DEPTH: Final = 64

#: Returns the name of a topic id, None if it is unknown.
TopicName = Callable[[str], str | None]


class DifferenceKind(StrEnum):
    """How two values differ."""

    VALUE = "value"
    ERROR_CODE = "error code"
    ONLY_IN_A = "only in A"
    ONLY_IN_B = "only in B"
    SEEN = "values"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field that differs: `path` is the path of the value in A, else in B, e.g. ``topics[2].name``.

    `a` and `b` are the values as in JSON; None if the field does not exist, which `why` distinguishes from null.
    `owner` is the message or payload that has the field, e.g. ``MetadataResponse``.
    """

    path: str
    a: Any
    b: Any
    why: DifferenceKind
    owner: str


@dataclass(frozen=True, slots=True)
class ValuePair:
    """Two values of a kind in the same field: they stand for the same thing, whether equal or not."""

    kind: ValueKind
    path: str
    a: Any
    b: Any


@dataclass(slots=True)
class BodyComparison:
    """The differences, and the pairs of values of a kind, except those in which a value is unset (null, -1)."""

    differences: list[FieldDifference] = field(default_factory=list)
    pairs: list[ValuePair] = field(default_factory=list)


def compare_bodies(
    message: str,
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    *,
    may_differ: frozenset[ValueKind] = MAY_DIFFER,
    same_layout: bool = True,
    topic_names: tuple[TopicName, TopicName] = (lambda _: None, lambda _: None),
) -> BodyComparison:
    """Compare two bodies of a message, as in a trace at full detail (`dissectors.embedded`). Never raises.

    Elements of arrays are compared by their names or numbers, not by their order.

    Args:
        message: Such as ``MetadataResponse``.
        a: One body; its bytes may be bytes or base64, as in JSON.
        b: The other body.
        may_differ: Kinds whose values need not be equal. A set value and an unset one (null, -1) still differ.
        same_layout: Whether both bodies have the same version. If not, only fields that both have are compared.
        topic_names: Functions from topic id to name, for A and for B, to compare topics that have only an id.
    """
    comparer = _Comparer(may_differ, same_layout, topic_names)
    comparer.compare_structs(message, (), a, b)
    return comparer.comparison


class _Comparer:
    def __init__(self, may_differ: frozenset[ValueKind], same_layout: bool, topic_names: tuple[TopicName, TopicName]):
        self.comparison = BodyComparison()
        self._may_differ, self._same_layout, self._topic_names = may_differ, same_layout, topic_names

    def compare_structs(self, owner: str, path: tuple[str, ...], a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
        """Compare the fields of two structs. The owner of fields inside a payload is the type of the payload."""
        payload = a.get("data")
        field_owner = a["type"] if isinstance(payload, dict) and isinstance(a.get("type"), str) else owner
        for name in (*a, *(name for name in b if name not in a)):
            field_path = (*path, name)
            if name in a and name in b:
                self._compare_values(field_owner, name, field_path, a[name], b[name])
            elif self._same_layout:
                self._add_difference(
                    owner,
                    field_path,
                    a.get(name),
                    b.get(name),
                    DifferenceKind.ONLY_IN_A if name in a else DifferenceKind.ONLY_IN_B,
                )

    def _compare_values(self, owner: str, name: str, path: tuple[str, ...], a: Any, b: Any) -> None:
        if len(path) > _MAX_DEPTH:
            return
        if isinstance(a, dict) and isinstance(b, dict):
            self.compare_structs(owner, path, a, b)
        elif isinstance(a, list) and isinstance(b, list):
            self._compare_arrays(owner, name, path, a, b)
        else:
            self._compare_scalars(owner, name, path, _as_json_value(a), _as_json_value(b))

    def _compare_arrays(self, owner: str, name: str, path: tuple[str, ...], a: list[Any], b: list[Any]) -> None:
        is_keyed = name not in _ORDERED and kind_of(owner, name) is None
        elements_a = dict(_with_keys(a, self._topic_names[0]) if is_keyed else enumerate(a))
        elements_b = dict(_with_keys(b, self._topic_names[1]) if is_keyed else enumerate(b))
        if is_keyed and elements_a.keys() != elements_b.keys() and self._depend_on_assignment(owner, [*a, *b]):
            elements_a, elements_b = dict(enumerate(a)), dict(enumerate(b))
        indexes = {key: index for index, key in enumerate(elements_b)}
        for index, (key, value) in enumerate(elements_a.items()):
            element_path = (*path, str(index))
            if key in elements_b:
                self._compare_values(owner, name, element_path, value, elements_b.pop(key))
            else:
                self._add_difference(owner, element_path, value, None, DifferenceKind.ONLY_IN_A)
        for key, value in elements_b.items():
            self._add_difference(owner, (*path, str(indexes[key])), None, value, DifferenceKind.ONLY_IN_B)

    def _depend_on_assignment(self, owner: str, elements: list[Any]) -> bool:
        """Whether these are partitions whose numbers depend on the assignment of a group."""
        return ValueKind.PARTITION in self._may_differ and all(
            isinstance(element, dict) and any(kind_of(owner, name) is ValueKind.PARTITION for name in element)
            for element in elements
        )

    def _compare_scalars(self, owner: str, name: str, path: tuple[str, ...], a: Any, b: Any) -> None:
        kind = kind_of(owner, name)
        if kind is not None and not isinstance(a, dict | list) and not isinstance(b, dict | list):
            unset = is_unset(kind, a), is_unset(kind, b)
            if not any(unset):
                self.comparison.pairs.append(ValuePair(kind, render(path), a, b))
            is_special = kind is ValueKind.TIME and all(unset)  # -1 and -2 in ListOffsets
            if kind in self._may_differ and unset[0] == unset[1] and not is_special:
                return
        if a != b and not (_is_withheld(a) and _is_withheld(b)):
            self._add_difference(
                owner, path, a, b, DifferenceKind.ERROR_CODE if name.endswith("error_code") else DifferenceKind.VALUE
            )

    def _add_difference(self, owner: str, path: tuple[str, ...], a: Any, b: Any, kind: DifferenceKind) -> None:
        self.comparison.differences.append(FieldDifference(render(path), a, b, kind, owner))


def _with_keys(elements: list[Any], topic_name: TopicName) -> Iterator[tuple[Any, Any]]:
    """Yield the elements with keys: the identifying fields of a struct or the scalar itself, and a running number."""
    counts: Counter[Any] = Counter()
    for element in elements:
        key: object = _identity(element, topic_name) if isinstance(element, dict) else _as_json_value(element)
        key = None if isinstance(key, list) else key
        counts[key] += 1
        yield (key, counts[key]), element


def _identity(struct: Mapping[str, Any], topic_name: TopicName) -> tuple[tuple[str, str], ...]:
    key = [(name, str(struct[name])) for name in _IDENTITY if name in struct]
    topic_id = struct.get("topic_id")
    if isinstance(topic_id, str) and not struct.get("name") and (name := topic_name(topic_id)):
        key = [field for field in key if field[0] != "name"] + [("name", name)]
    return tuple(key)


def _as_json_value(value: Any) -> Any:
    """Return a value as in JSON: bytes as base64."""
    return base64.b64encode(value).decode() if isinstance(value, bytes | memoryview) else value


def _is_withheld(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_WITHHELD)
