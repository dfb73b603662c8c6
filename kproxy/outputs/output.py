"""What every output of lines has in common: the filter, what was analysed, and the bugs that a line triggers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from dissectors.failures import Failure
from kproxy.errors import UserError
from kproxy.inspection.event_lines import failure_line
from kproxy.inspection.inspector import WaitingResponse
from kproxy.outputs.coverage import AnalysedInputs
from kproxy.outputs.stderr import warn
from kproxy.trace.encoding import as_mapping
from kproxy.trace.lines import Detail, Line

if TYPE_CHECKING:
    from kproxy.filters import Filter


class Output(ABC):
    """Takes lines; those that do not match the filter are passed over.

    `warnings` are sentences about what was left out, known when it is closed.
    """

    warnings: Sequence[str] = ()

    def __init__(self, file: TextIO, chosen: Filter | None) -> None:
        self._file = file
        self._filter = chosen
        self.analysed = AnalysedInputs()
        self.failures: Counter[Failure] = Counter()

    def detail(self, asked: Detail) -> Detail:
        """How much of each frame this output needs."""
        return asked

    def begin(self, name: str) -> None:  # noqa: B027  # most have nothing to do
        """What is written next is of the input `name`."""

    def end(self, packets: int | None = None) -> None:
        """The input has ended; a capture has so many packets."""
        if packets is not None:
            self.analysed.packet_count(packets)

    def note(self, sentence: str) -> None:  # noqa: B027  # most have nothing to do
        """The user is told this of the input."""

    def still_waiting(self, waiting: WaitingResponse, ts: str) -> None:  # noqa: B027  # of use to a person who watches
        """At `ts`, a request that is still without a response."""

    def write(self, line: Line) -> bool:
        """Write a line if it matches; whether it did.

        A bug in kproxy that this line provokes is reported in its place, each once; `failures` counts them.
        """
        self.analysed.add(line)
        try:
            return self._put(line)
        except (OSError, UserError):
            raise
        except Exception as error:  # noqa: BLE001  # a bug: the other lines are still worth showing
            failure = Failure.of("showing a line", error)
        self.failures[failure] += 1
        if self.failures[failure] == 1:
            warn(f"{failure}; this is a bug in kproxy; the other lines are still shown")
            self._put(failure_line(line, failure))
        return True

    def _put(self, line: Line) -> bool:
        mapping = None
        if self._filter is not None and not self._filter.matches(mapping := as_mapping(line)):
            return False
        self._show(line, mapping)
        return True

    @abstractmethod
    def _show(self, line: Line, mapping: Mapping[str, Any] | None) -> None: ...

    def flush(self) -> None:
        """Hand over what is ready: nothing more may come for a while."""
        self._file.flush()

    def close(self) -> None:
        """Write what is left."""
        self.flush()
