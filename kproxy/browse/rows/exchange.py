"""An exchange: a request and its response as one thing, or what happened beside them."""

from __future__ import annotations

from dataclasses import dataclass

from kproxy.trace.lines import FindingEntry, FindingLine, Line, RequestLine, ResponseLine


@dataclass(frozen=True, slots=True)
class Exchange:
    """A row of the list: `request` and `response`, one of them perhaps missing; or an `event`, a line that is neither.

    `row` is its number, `state` how it stands (`kproxy.browse.rows.index.RowState`).
    """

    row: int
    state: int
    request: RequestLine | None = None
    response: ResponseLine | None = None
    event: Line | None = None

    @property
    def line(self) -> Line:
        """The line that says most: the response, else the request, else the event."""
        line = self.response or self.request or self.event
        assert line is not None
        return line

    @property
    def frame(self) -> RequestLine | ResponseLine | None:
        """The response, else the request; None of an event."""
        return self.response or self.request

    @property
    def findings(self) -> list[FindingEntry | FindingLine]:
        """Those of the request, then those of the response; an event that is one."""
        found: list[FindingEntry | FindingLine] = []
        for side in (self.request, self.response):
            if side is not None:
                found += side.findings
        if isinstance(self.event, FindingLine):
            found.append(self.event)
        return found
