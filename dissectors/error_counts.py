"""ErrorCounts counts how many responses had each error."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Protocol

from dissectors import schemas
from dissectors.bounded import MAX_NAME_LENGTH

#: The maximum number of names counted separately, in addition to Kafka's. A hostile broker may send any number.
MAX_NAMES = 100
#: The name under which all other errors are counted.
OTHERS = "others"


class NamedError(Protocol):
    """An error in a response, with the name that Kafka gives it."""

    @property
    def name(self) -> str: ...


class ErrorCounts:
    """Counts responses with errors, in total and per error name; each name counts once per response."""

    __slots__ = ("_names", "responses")

    def __init__(self) -> None:
        self.responses = 0
        self._names: dict[str, int] = {}

    def add(self, errors: Iterable[NamedError]) -> None:
        """Count a response with these errors (at least one)."""
        self.responses += 1
        names = self._names
        for name in {error.name[:MAX_NAME_LENGTH] for error in errors}:
            counted_name = name if name in names or len(names) < MAX_NAMES or name in _kafka_error_names() else OTHERS
            names[counted_name] = names.get(counted_name, 0) + 1

    def row(self) -> tuple[tuple[str, int], ...]:
        """Return (error name, number of responses) pairs, the most frequent first."""
        return sorted_by_count(self._names)

    @classmethod
    def merged(cls, counters: Iterable[ErrorCounts]) -> ErrorCounts:
        """Return the sum of several counters."""
        total = cls()
        for counts in counters:
            total.responses += counts.responses
            for name, count in counts.row():
                total._names[name] = total._names.get(name, 0) + count
        return total


@functools.cache
def _kafka_error_names() -> frozenset[str]:
    return frozenset(error.name for error in schemas.errors())


def sorted_by_count(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the names with their counts, the most frequent first."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
