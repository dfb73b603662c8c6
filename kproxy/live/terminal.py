"""The terminal of a live proxy: shows selected lines at a limited rate, and counts them for the summary."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from kproxy.inspection.late_responses import WaitingResponse
from kproxy.live.options import InspectorOptions
from kproxy.outputs.line_outputs import output_for
from kproxy.outputs.rate_limit import RateLimit
from kproxy.outputs.run_summary import RunSummary
from kproxy.outputs.stderr import warn
from kproxy.outputs.streams import discard_output, error_text
from kproxy.trace.lines import Line
from kproxy.trace.shared_line import SharedLine
from kproxy.verdict.causes import Causes


class Terminal:
    """Shows lines on standard output until its reader exits (`| head`) or its disk is full.

    Attributes:
        causes: The causes of the selected findings.
        summary: Counts the selected lines.
        has_failed: Whether there was a finding at or above `--fail-on`.
    """

    def __init__(self, options: InspectorOptions) -> None:
        self.causes = Causes()
        self.summary = RunSummary(self.causes)
        self.has_failed = False
        self._selection = options.selection
        self._detail = options.detail
        self._output = output_for(options.output, sys.stdout, options.selection, encode=self._encode)
        self._shows_frames = options.output.json or not options.output.quiet
        self._throttle = RateLimit(sys.stdout)
        self._is_shown = True
        self._line: SharedLine | None = None

    def take(self, line: SharedLine) -> None:
        """Count a line, and show it if it is selected. Lines received from a worker are already counted."""
        if line.is_received and not (self._shows_frames and self._is_shown):
            return
        selected = self._selection.select(line.line)  # the trace has all findings
        if selected is None:
            return
        if not line.is_received:
            self.summary.add(selected)
            self.has_failed = self.has_failed or self._selection.fails_for(selected)
        if self._is_shown and self._output.shows(selected) and self._throttle.allows():
            self._line = line
            self._show(partial(self._output.write, selected))

    def show_waiting(self, waiting: WaitingResponse, ts: str) -> None:
        """Show a late response, and count its request as one that stalls its client."""
        self.causes.add_waiting(waiting.request)
        if self._is_shown and self._throttle.allows():
            self._show(partial(self._output.show_waiting, waiting, ts))

    def flush(self) -> None:
        """Show the buffered lines."""
        self._show(self._output.flush)

    def close(self) -> None:
        """Report how many lines were not shown; show the rest."""
        self._throttle.close()
        self.flush()

    def _encode(self, line: Line) -> bytes:
        shared = self._line
        if shared is None or shared.line is not line:  # some of its findings are not selected
            shared = SharedLine(line)
        return shared.encoded(self._detail)

    def _show(self, write: Callable[[], object]) -> None:
        if not self._is_shown:
            return
        try:
            write()
        except OSError as error:
            self._is_shown = False
            discard_output()
            if not isinstance(error, BrokenPipeError):
                warn(f"output stopped: {error_text(error)}")
