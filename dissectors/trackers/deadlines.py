"""Deadlines: events that are expected by a certain time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from dissectors.connections.events import DeadlinePassed

SubjectT = TypeVar("SubjectT")

#: The maximum number of pending deadlines; further deadlines are ignored.
MAX_DEADLINES = 100_000


@dataclass(slots=True)
class _Entry(Generic[SubjectT]):
    subject: SubjectT
    event: DeadlinePassed
    sequence: int


class Deadlines(Generic[SubjectT]):
    """The queue of deadlines for all connections of a run (the subjects). Time comes from the events, not from a clock.

    A capture therefore gives the same findings as the live traffic that it recorded.

    Attributes:
        due: No pending deadline passes until after this time (ns).
    """

    def __init__(self) -> None:
        self.due: float = math.inf
        self._queue: list[tuple[int, int, Hashable]] = []
        self._waiting: dict[Hashable, _Entry[SubjectT]] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._waiting

    def set_deadline(self, key: Hashable, subject: SubjectT, event: DeadlinePassed) -> None:
        """Set or replace the deadline of a key.

        `passed` yields `event` for `subject` unless `meet_deadline` is called first.
        """
        if key not in self._waiting and len(self._waiting) >= MAX_DEADLINES:
            return
        self._sequence += 1
        self._waiting[key] = _Entry(subject, event, self._sequence)
        heapq.heappush(self._queue, (event.at, self._sequence, key))
        if len(self._queue) > 2 * len(self._waiting) + 1000:  # mostly cancelled entries: remove them
            self._queue = [(entry.event.at, entry.sequence, key) for key, entry in self._waiting.items()]
            heapq.heapify(self._queue)
        self.due = self._queue[0][0]

    def meet_deadline(self, key: Hashable) -> DeadlinePassed | None:
        """Cancel a deadline and return its event; None if it is not pending."""
        entry = self._waiting.pop(key, None)
        return entry.event if entry else None

    def pop_passed(self, at: int) -> Iterator[tuple[SubjectT, DeadlinePassed]]:
        """Remove and yield the pending deadlines before `at`, in order."""
        while self.due < at:
            _, sequence, key = heapq.heappop(self._queue)
            self.due = self._queue[0][0] if self._queue else math.inf
            entry = self._waiting.get(key)
            if entry is not None and entry.sequence == sequence:
                del self._waiting[key]
                yield entry.subject, entry.event
