"""Reports of findings, each cause once, as text, JSON, SARIF or JUnit XML."""

from __future__ import annotations

from typing import TextIO

from kproxy.filters import Filter
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.output import Output
from kproxy.outputs.reports import json_array, junit, sarif, text
from kproxy.trace.lines import Line
from kproxy.verdict.causes import Causes


class Report(Output):
    """Collects findings and writes a report at the end."""

    def __init__(self, file: TextIO, line_filter: Filter | None, format_: str, selection: Selection) -> None:
        super().__init__(file, line_filter)
        self._format = format_
        self._selection = selection
        self._causes = Causes()
        self._notes: list[str] = []

    def begin(self, name: str) -> None:
        """Attribute the next lines to the input `name`."""
        self._causes.begin(name)

    def note(self, sentence: str) -> None:
        """Keep a sentence for the formats that have a place for it."""
        self._notes.append(sentence)

    def _put(self, line: Line) -> bool:
        matches = super()._put(line)
        if not matches:
            self._causes.follow(line)
        return matches

    def _show(self, line: Line) -> None:
        self._causes.add(line)

    def close(self) -> None:
        """Write the report."""
        if self._format == "text":
            text.write(self._causes, self._file, self.analysed)
        elif self._format == "json":
            self._file.buffer.write(json_array.report(self._causes))
        elif self._format == "sarif":
            self._file.buffer.write(sarif.report(self._causes, self.analysed, self._notes))
        else:
            self._file.write(junit.report(self._causes, self._selection, self.analysed))
        super().close()
