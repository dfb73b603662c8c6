"""Headings of inputs: the name and day above their lines, and a summary below."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.outputs.coverage import Counts
from kproxy.outputs.text import Piece
from kproxy.trace.formatting import safe
from kproxy.trace.lines import Line
from kproxy.trace.time_display import UTC_DISPLAY, TimeDisplay


class Headings:
    """Tracks the input and day of the last row. An input none of whose lines are shown gets no headings."""

    def __init__(self, clock: TimeDisplay = UTC_DISPLAY) -> None:
        self._clock = clock
        self.begin("")
        self._inputs_shown = 0

    def begin(self, name: str) -> None:
        """Attribute the next lines to the input `name`."""
        self._name = safe(name)
        self._counts = Counts()
        self._first = self._last = ""
        self._day = ""

    def add(self, line: Line) -> None:
        """Count a line, shown or not."""
        self._counts.add(line)
        self._first = min(self._first or line.ts, line.ts)
        self._last = max(self._last, line.ts)

    def above(self, line: Line) -> Iterator[list[Piece]]:
        """Yield the rows above a line: the name of its input and its day, if they have changed."""
        day = self._clock.day(line.ts)
        if day == self._day:
            return
        if not self._day:
            if self._inputs_shown:
                yield []
            self._inputs_shown += 1
            yield [(f"{self._name}  {day} {self._clock.label(line.ts)}", "name")]
        else:
            yield [(day, "name")]
        self._day = day

    def end(self, packets: int | None) -> Iterator[list[Piece]]:
        """Yield the row below an input: its first and last time, and its counts."""
        if not self._day:
            return
        self._counts.packets = packets
        first, last = (self._clock.date_and_time(ts)[:19] for ts in (self._first, self._last))
        until = last.removeprefix(first[:11])
        yield [(f"{self._name}: {first} to {until}, {self._counts}", "dim")]
