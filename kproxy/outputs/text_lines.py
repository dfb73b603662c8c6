"""Writes lines as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from kproxy.inspection.late_responses import WaitingResponse
from kproxy.outputs.headings import Headings
from kproxy.outputs.output import Output
from kproxy.outputs.text import TextOutput
from kproxy.trace.encoding import as_mapping
from kproxy.trace.lines import Detail, Line
from kproxy.trace.time_display import TimeDisplay

if TYPE_CHECKING:
    from kproxy.outputs.line_outputs import OutputOptions


class TextLines(Output):
    """Writes lines with `TextOutput`, with headings if the options ask for them."""

    def __init__(self, file: TextIO, options: OutputOptions) -> None:
        super().__init__(file, options.filter)
        self._shows_bodies = options.verbose or options.payloads
        clock = TimeDisplay(is_local=options.local_time)
        self._headings = Headings(clock) if options.headings else None
        rows_above = self._headings.above if self._headings is not None else lambda _: ()
        self._text = TextOutput(
            file,
            quiet=options.quiet,
            verbose=options.verbose,
            payloads=options.payloads,
            rows_above=rows_above,
            clock=clock,
        )

    def detail(self, requested: Detail) -> Detail:
        needs_bodies = self._shows_bodies or (self._filter is not None and self._filter.searches_text)
        return Detail.FULL if needs_bodies and requested is Detail.SUMMARY else requested

    def shows(self, line: Line) -> bool:
        return self._text.shows(line)

    def begin(self, name: str) -> None:
        if self._headings is not None:
            self._headings.begin(name)

    def end(self, packets: int | None = None) -> None:
        super().end(packets)
        if self._headings is not None:
            self._text.write_rows(self._headings.end(packets))

    def show_waiting(self, waiting: WaitingResponse, ts: str) -> None:
        if self._filter is None or self._filter.matches(as_mapping(waiting.request)):
            self._text.show_waiting(waiting, ts)

    def _put(self, line: Line) -> bool:
        if self._headings is not None:
            self._headings.add(line)
        return super()._put(line)

    def _show(self, line: Line) -> None:
        self._text.write(line)
