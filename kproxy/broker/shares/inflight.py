"""Batches of records in flight: what became of each record of a share partition between its start and its end.

Source: Kafka's InFlightBatch and InFlightState.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class RecordState(IntEnum):
    """Kafka's codes of what a record can be."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """It is not delivered any more."""
        return self >= RecordState.ACKNOWLEDGED


@dataclass(slots=True)
class Run:
    """Neighbouring records that are in the same state.

    Attributes:
        first: The first offset.
        last: The last.
        state: Of all.
        deliveries: How often each was delivered.
        member: Who has acquired them; empty if nobody has.
        until: When that ends, in ms since the epoch.
    """

    first: int
    last: int
    state: RecordState
    deliveries: int
    member: str = ""
    until: int = 0

    def __len__(self) -> int:
        return self.last - self.first + 1

    def acquire(self, member: str, until: int) -> None:
        """Deliver them to a member once more."""
        self.state, self.member, self.until = RecordState.ACQUIRED, member, until
        self.deliveries += 1

    def let_go(self, state: RecordState, most_deliveries: int) -> None:
        """Nobody has them any more; those that were delivered often enough are not available again."""
        spent = state is RecordState.AVAILABLE and self.deliveries >= most_deliveries
        self.state, self.member = RecordState.ARCHIVED if spent else state, ""


@dataclass(slots=True)
class InFlight:
    """Records that were acquired together.

    Attributes:
        runs: They, in order, without gaps.
        split: They have gone different ways, so that each is looked at by itself.
    """

    runs: list[Run]
    split: bool = False

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def first(self) -> int:
        """The first offset."""
        return self.runs[0].first

    @property
    def last(self) -> int:
        """The last offset."""
        return self.runs[-1].last

    def within(self, first: int, last: int) -> Iterator[Run]:
        """The runs between two offsets; those that reach beyond are cut."""
        self._cut(first)
        self._cut(last + 1)
        return iter([run for run in self.runs if first <= run.first and run.last <= last])

    def at(self, offset: int) -> Run | None:
        """The run that has an offset."""
        return next((run for run in self.runs if run.first <= offset <= run.last), None)

    def copy(self) -> InFlight:
        """One that changes by itself."""
        return InFlight([dataclasses.replace(run) for run in self.runs], self.split)

    def _cut(self, offset: int) -> None:
        """Have a run begin at an offset that lies within one."""
        for position, run in enumerate(self.runs):
            if run.first < offset <= run.last:
                self.runs.insert(position + 1, dataclasses.replace(run, first=offset))
                run.last = offset - 1
                return
