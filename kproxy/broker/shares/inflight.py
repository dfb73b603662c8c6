"""Batches of records in flight: the state of each record of a share partition between its start and its end.

Source: Kafka's InFlightBatch and InFlightState.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class RecordState(IntEnum):
    """Kafka's codes for record states."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record is never delivered again."""
        return self >= RecordState.ACKNOWLEDGED


@dataclass(slots=True)
class Run:
    """Consecutive records with the same state.

    Attributes:
        first: The first offset.
        last: The last offset.
        state: The state of each record.
        deliveries: The delivery count of each record.
        member: The member that has acquired them; empty if none.
        until: End of the acquisition lock, in ms since the epoch.
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
        """Deliver the records to a member once more."""
        self.state, self.member, self.until = RecordState.ACQUIRED, member, until
        self.deliveries += 1

    def set_state(self, state: RecordState, member: str, until: int) -> None:
        """Set the state, member and lock."""
        self.state, self.member, self.until = state, member, until

    def end_acquisition(self, state: RecordState, max_deliveries: int) -> None:
        """End the acquisition; records at the delivery limit do not become available again."""
        is_exhausted = state is RecordState.AVAILABLE and self.deliveries >= max_deliveries
        self.state, self.member = RecordState.ARCHIVED if is_exhausted else state, ""


@dataclass(slots=True)
class AcquiredBatch:
    """Records that were acquired together.

    Attributes:
        runs: The records, in order, without gaps.
        split: Whether the records' states have diverged, so that each record is handled separately.
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

    def runs_between(self, first: int, last: int) -> list[Run]:
        """Return the runs with records between two offsets."""
        start = max(bisect.bisect_right(self.runs, first, key=_first_offset) - 1, 0)
        return self.runs[start : bisect.bisect_right(self.runs, last, key=_first_offset)]

    def split_runs_between(self, first: int, last: int) -> list[Run]:
        """Return the runs between two offsets, after splitting runs at these offsets."""
        if last < first:
            return []
        self.split_at((first, last + 1))
        start = bisect.bisect_left(self.runs, first, key=_first_offset)
        return self.runs[start : bisect.bisect_right(self.runs, last, key=_first_offset)]

    def split_at(self, offsets: Sequence[int]) -> None:
        """Split runs so that one begins at each of these ascending offsets; offsets outside the batch are ignored."""
        split_offsets = [offset for offset in offsets if self._is_inside(offset)]
        if not split_offsets:
            return
        runs, position = [], 0
        for run in self.runs:
            while position < len(split_offsets) and split_offsets[position] <= run.last:
                runs.append(dataclasses.replace(run, last=split_offsets[position] - 1))
                run.first = split_offsets[position]
                position += 1
            runs.append(run)
        self.runs = runs

    def run_at(self, offset: int) -> Run | None:
        """Return the run that contains an offset; None if there is none."""
        position = bisect.bisect_right(self.runs, offset, key=_first_offset) - 1
        run = self.runs[position] if position >= 0 else None
        return run if run is not None and offset <= run.last else None

    def _is_inside(self, offset: int) -> bool:
        """Whether an offset is inside a run, but not its first offset."""
        run = self.run_at(offset)
        return run is not None and run.first < offset


def _first_offset(run: Run) -> int:
    return run.first
