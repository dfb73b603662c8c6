"""An exchange: a request and its response as one thing, or what happened beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kproxy.trace.encoding import as_mapping
from kproxy.trace.lines import FindingEntry, FindingLine, Line, RequestLine, ResponseLine


@dataclass(frozen=True, slots=True)
class Exchange:
    """A row of the list: `request` and `response`, one of them perhaps missing; or an `event`, a line that is neither.

    `row` is its number, `state` how it stands (`kproxy.browse.rows.index.State`).
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

    def as_mapping(self) -> dict[str, Any]:
        """As a filter sees it: the fields of the response, where it has none those of the request, findings of both."""
        merged = as_mapping(self.line)
        if self.request is not None and self.response is not None:
            asked = as_mapping(self.request)
            findings = asked.get("findings", []) + merged.get("findings", [])
            merged = asked | merged
            if findings:
                merged["findings"] = findings
            if asked.get("not_decoded") and not merged.get("not_decoded"):
                merged["not_decoded"] = asked["not_decoded"]
        return merged
