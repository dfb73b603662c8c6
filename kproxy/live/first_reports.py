"""FirstReports: decides which worker's finding is the first report of its root cause."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from dissectors.bounded import BoundedDict
from dissectors.findings import Severity
from dissectors.trackers.state import MAX_CAUSE_AGE, MAX_CAUSES, MAX_REPEATS, Place, Repeat
from kproxy.inspection.event_lines import repeated_findings
from kproxy.trace.lines import FRAME_LINES, FindingEntry, FindingLine, Line, RequestLine, ResponseLine

_Frame: TypeAlias = RequestLine | ResponseLine


class FirstReports:
    """Makes each root cause appear once for all workers; within a worker, `dissectors.rules.check` does so."""

    def __init__(self) -> None:
        self._causes: BoundedDict[str, tuple[int, Place]] = BoundedDict(MAX_CAUSES)  # last finding (ns), first place
        self._replaced: BoundedDict[tuple[Place, str], Place] = BoundedDict(MAX_CAUSES)

    def is_new(self, cause: str, finding: FindingEntry | FindingLine, line: Line, *, at: int) -> bool:
        """Return whether a finding is the first of its cause, or the first in an hour; if not, add a repeat to `line`.

        A finding without a cause (``""``) is always new.
        """
        location = Place(line.connection_id)
        if isinstance(line, FRAME_LINES):
            location = Place(line.connection_id, isinstance(line, RequestLine), line.offset)
        last_at, first_place = self._causes.get(cause, (at, None))
        if not cause or first_place is None or at - last_at > MAX_CAUSE_AGE:
            self._causes[cause] = at, location
            return True
        self._causes[cause] = at, first_place
        if isinstance(line, FRAME_LINES):
            self._replaced[location, finding.code] = first_place
            if finding.severity != Severity.INFO and len(line.repeats) < MAX_REPEATS:
                line.repeats += repeated_findings({Repeat(finding.code, finding.severity, first_place): 1}, line)
        return False

    def follow(self, line: _Frame) -> None:
        """Make the repeats of a line refer to the first report among all workers, not to its own worker's."""
        if not line.repeats or not self._replaced:
            return
        is_request = isinstance(line, RequestLine)
        repeats: Counter[Repeat] = Counter()
        for repeat in line.repeats:
            direction = is_request if repeat.direction is None else repeat.direction == "request"
            has_frame = repeat.offset is not None
            location = Place(
                repeat.connection_id or line.connection_id, direction if has_frame else None, repeat.offset
            )
            first_place = self._replaced.get((location, repeat.code), location)
            repeats[Repeat(repeat.code, repeat.severity, first_place)] += repeat.count
        line.repeats = repeated_findings(repeats, line)
