"""An exchange: a request and its response, or an event."""

from __future__ import annotations

from dataclasses import dataclass

from kproxy.control.protocol import LateResponse
from kproxy.trace.lines import FindingEntry, FindingLine, Line, RepeatedFinding, RequestLine, ResponseLine


@dataclass(frozen=True, slots=True)
class Exchange:
    """A row of the list: `request` and `response`, one of which may be missing; or an `event`, any other line.

    `row` is its number, `state` its `kproxy.browse.rows.index.RowState`, `late` why its response is late, if known.
    """

    row: int
    state: int
    request: RequestLine | None = None
    response: ResponseLine | None = None
    event: Line | None = None
    late: LateResponse | None = None

    @property
    def line(self) -> Line:
        """The most informative line: the response, else the request, else the event."""
        line = self.response or self.request or self.event
        assert line is not None
        return line

    @property
    def frame(self) -> RequestLine | ResponseLine | None:
        """The response, else the request; None for an event."""
        return self.response or self.request

    @property
    def repeats(self) -> list[RepeatedFinding]:
        """The findings of earlier rows that the request, then the response, repeats."""
        return [repeat for side in (self.request, self.response) if side is not None for repeat in side.repeats]

    @property
    def findings(self) -> list[FindingEntry | FindingLine]:
        """The findings of the request, then of the response; or the event, if it is a finding."""
        findings: list[FindingEntry | FindingLine] = []
        for side in (self.request, self.response):
            if side is not None:
                findings += side.findings
        if isinstance(self.event, FindingLine):
            findings.append(self.event)
        return findings


def lines_of(exchange: Exchange) -> list[Line]:
    """Return the lines of an exchange in order."""
    return [line for line in (exchange.request, exchange.response, exchange.event) if line is not None]
