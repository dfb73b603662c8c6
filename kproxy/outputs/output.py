"""The base class of outputs: filter, counts, and handling of bugs in kproxy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from dissectors.failures import Failure
from kproxy.errors import UserError
from kproxy.inspection.event_lines import failure_line
from kproxy.inspection.late_responses import WaitingResponse
from kproxy.inspection.needs import EVERYTHING, Needs
from kproxy.outputs.coverage import AnalysedInputs
from kproxy.outputs.stderr import warn
from kproxy.trace.encoding import ColumnReader
from kproxy.trace.lines import Detail, Line

if TYPE_CHECKING:
    from kproxy.filters import Filter


class Output(ABC):
    """Writes lines that match the filter.

    `warnings` are sentences about omitted content, complete after `close`.
    """

    warnings: Sequence[str] = ()

    def __init__(self, file: TextIO, line_filter: Filter | None) -> None:
        self._file = file
        self._filter = line_filter
        self._filter_columns = ColumnReader(() if line_filter is None else line_filter.columns)
        self.analysed = AnalysedInputs()
        self.failures: Counter[Failure] = Counter()

    @property
    def needs(self) -> Needs:
        """What this output needs from the inspection."""
        return EVERYTHING

    def detail(self, requested: Detail) -> Detail:
        """Return how much of each frame this output needs."""
        return requested

    def shows(self, line: Line) -> bool:
        """Whether `write` may write something; False only if it would write nothing, regardless of the filter."""
        return True

    def begin(self, name: str) -> None:  # noqa: B027  # most outputs need nothing here
        """Attribute the next lines to the input `name`."""

    def end(self, packets: int | None = None) -> None:
        """End the input. `packets` is the number of packets of a capture."""
        if packets is not None:
            self.analysed.add_packets(packets)

    def note(self, sentence: str) -> None:  # noqa: B027  # most outputs need nothing here
        """Add a sentence for the user about the input."""

    def show_waiting(self, waiting: WaitingResponse, ts: str) -> None:  # noqa: B027  # only useful to a person
        """Report a request that is still without a response at `ts`."""

    def write(self, line: Line) -> bool:
        """Write a line if it matches the filter; return whether it matches.

        If the line triggers a bug in kproxy, the bug is reported instead, once; `failures` counts the occurrences.
        """
        self.analysed.add(line)
        try:
            return self._put(line)
        except (OSError, UserError):
            raise
        except Exception as error:  # noqa: BLE001  # a bug: continue with the other lines
            failure = Failure.of("showing a line", error)
        self.failures[failure] += 1
        if self.failures[failure] == 1:
            warn(f"{failure}; this is a bug in kproxy; the other lines are still shown")
            self._put(failure_line(line, failure))
        return True

    def write_all(self, lines: Sequence[Line]) -> Sequence[Line]:
        """Write the lines that match the filter, and return them; handle bugs as `write` does."""
        return [line for line in lines if self.write(line)]

    def _put(self, line: Line) -> bool:
        """Show a line if it matches the filter; return whether it matches."""
        if self._filter is not None and not self._filter.matches(self._filter_columns(line)):
            return False
        self._show(line)
        return True

    @abstractmethod
    def _show(self, line: Line) -> None: ...

    def flush(self) -> None:
        """Flush the file; there may be no more lines for a while."""
        self._file.flush()

    def close(self) -> None:
        """Write all remaining output."""
        self.flush()
