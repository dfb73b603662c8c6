"""ProgressLog: records how far the inspection has progressed, so that another inspector can continue."""

from __future__ import annotations

from typing import Protocol

from kproxy.inspection.inspected_connection import Progress
from kproxy.proxy.inspected_table import InspectedTable


class HasProgress(Protocol):
    """An inspector, or a pool of workers."""

    def progress(self, number: int) -> tuple[Progress, Progress] | None:
        """Return how far each direction of a connection was inspected; None if the connection is not open."""


class ProgressLog:
    """Collects the connections that have progressed; stores their progress once their lines are in the trace.

    Args:
        table: Where to store the progress; None stores nothing.
        inspector: Knows the progress.
    """

    def __init__(self, table: InspectedTable | None, inspector: HasProgress) -> None:
        self._table = table
        self._inspector = inspector
        self._slots: dict[int, int] = {}  # by the number of an open connection
        self._moved: set[int] = set()
        self._ended: list[int] = []  # slots
        self._missed: list[tuple[int, int, int]] = []

    def record_opened(self, number: int, slot: int | None) -> None:
        """Note that a connection was opened, and its slot of the table."""
        if slot is not None and self._table is not None:
            self._slots[number] = slot

    def record_progress(self, number: int) -> None:
        """Note that some bytes of a connection were inspected."""
        if number in self._slots:
            self._moved.add(number)

    def record_closed(self, number: int) -> None:
        """Note that the end of a connection was inspected."""
        if (slot := self._slots.pop(number, None)) is not None:
            self._moved.discard(number)
            self._ended.append(slot)

    def record_missed(self, connections: int, size: int, frames: int) -> None:
        """Note a gap line of the trace about connections that were never announced."""
        self._missed.append((connections, size, frames))

    def store(self, lost_lines: int = 0) -> None:
        """Store the progress. By now, the trace has everything except `lost_lines`, which it does not report yet."""
        if self._table is None:
            return
        self._table.store_lost_lines(lost_lines)
        for number in self._moved:
            if (progress := self._inspector.progress(number)) is not None:
                for direction, direction_progress in enumerate(progress):
                    self._table.store(
                        self._slots[number], direction, direction_progress.bytes, direction_progress.frames
                    )
        for slot in self._ended:
            self._table.store_closed(slot)
        for missed in self._missed:
            self._table.add_missed(*missed)
        self._missed.clear()
        self._moved.clear()
        self._ended.clear()
