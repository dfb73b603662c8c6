"""Compares repeated requests: which values they and their responses had, not how often or in which order.

How many records a fetch returns, and which heartbeat announces a rebalance, depends on time. Whether an error code
occurs at all does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kproxy.comparison.kinds import MAY_DIFFER, ValueKind, is_unset, kind_of
from kproxy.comparison.traffic import RecordedExchange

#: The fields of record batches that are compared; the others, and the records, depend on how records were batched.
_COMPARED_BATCH_FIELDS: Final = frozenset({
    "compression", "crc_valid", "is_control", "is_transactional", "magic", "timestamp_type",
})  # fmt: skip
#: Partition numbers: which ones a client polls depends on the assignment and on which broker leads them.
_PARTITION_FIELDS: Final = frozenset({"index", "partition", "partition_index"})
_MAX_DEPTH: Final = 64
_ARRAY: Final = "[...]"
_INSIDE_RECORDS: Final = "records[]."
_MAX_VALUES: Final = 20  # per field


@dataclass(slots=True)
class PollValues:
    """The values in the polls of one API, by path in the schema, each with the first exchange that has it.

    Paths begin with ``request.`` or ``response.``. Values of kinds that may differ are replaced by ``(some)``.
    """

    count: int = 0
    versions: set[int] = field(default_factory=set)
    values: dict[str, dict[str, tuple[Any, str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PollDifference:
    """A field with values that occur in one trace only: `a` and `b`, each value with its exchange (``#0:12``)."""

    path: str
    a: list[tuple[Any, str]]
    b: list[tuple[Any, str]]


def unanswered_requests(exchanges: Sequence[RecordedExchange]) -> list[RecordedExchange]:
    """Return the requests without a response although a later one has one, except Produce with acks=0."""
    response_indexes = [index for index, exchange in enumerate(exchanges) if exchange.response is not None]
    earlier_exchanges = exchanges[: response_indexes[-1]] if response_indexes else ()
    return [
        exchange
        for exchange in earlier_exchanges
        if exchange.response is None and (exchange.request.body or {}).get("acks") != 0
    ]


def poll_values(exchanges: Iterable[RecordedExchange], compared: frozenset[ValueKind] = frozenset()) -> PollValues:
    """Collect the values in the polls of one API. Values of a kind are masked unless the kind is in `compared`."""
    values = PollValues()
    masked_kinds = (MAY_DIFFER | {ValueKind.OFFSET}) - compared
    for exchange in exchanges:
        values.count += 1
        values.versions.add(exchange.version)
        for side, line in (("request", exchange.request), ("response", exchange.response)):
            if line is not None and line.body is not None:
                for path, value in _field_values(f"{exchange.api}{side.capitalize()}", side, line.body, masked_kinds):
                    known_values = values.values.setdefault(path, {})
                    if len(known_values) < _MAX_VALUES:
                        known_values.setdefault(repr(value), (value, exchange.place))
    return values


def compare_polls(a: PollValues, b: PollValues) -> Iterator[PollDifference]:
    """Compare the fields that both have, or that one lacks although it has the enclosing struct."""
    same_layout = a.versions == b.versions
    for path in dict.fromkeys((*a.values, *b.values)):
        values_a, values_b = a.values.get(path, {}), b.values.get(path, {})
        if (not values_a or not values_b) and not (same_layout and _has_struct(a, path) and _has_struct(b, path)):
            continue
        only_a = [value for key, value in values_a.items() if key not in values_b]
        only_b = [value for key, value in values_b.items() if key not in values_a]
        if only_a or only_b:
            yield PollDifference(path, only_a, only_b)


def _has_struct(side: PollValues, path: str) -> bool:
    struct_path = path.rpartition(".")[0] + "."
    return any(field_path.startswith(struct_path) for field_path in side.values)


def _field_values(
    owner: str, parent_path: str, struct: dict[str, Any], masked_kinds: frozenset[ValueKind]
) -> Iterator[tuple[str, Any]]:
    payload = struct.get("data")
    owner = struct["type"] if isinstance(payload, dict) and isinstance(struct.get("type"), str) else owner
    for name, value in struct.items():
        path = f"{parent_path}.{name}"
        if path.count(".") > _MAX_DEPTH or (_INSIDE_RECORDS in path and name not in _COMPARED_BATCH_FIELDS):
            continue
        if isinstance(value, dict):
            yield from _field_values(owner, path, value, masked_kinds)
        elif isinstance(value, list):
            yield path, _ARRAY  # so that an array differs from null
            for element in value:
                if isinstance(element, dict):
                    yield from _field_values(owner, f"{path}[]", element, masked_kinds)
        elif name not in _PARTITION_FIELDS:
            yield path, _mask(kind_of(owner, name), value, masked_kinds)


def _mask(kind: ValueKind | None, value: Any, masked_kinds: frozenset[ValueKind]) -> Any:
    if isinstance(value, bytes | memoryview):
        return "(bytes)"
    if kind is None or kind not in masked_kinds or is_unset(kind, value):
        return value
    return "(some)"
