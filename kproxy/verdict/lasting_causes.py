"""Tracks which causes last: those of requests that wait for a response, and of groups that make no progress."""

from __future__ import annotations

from typing import Final

from dissectors.connections.events import INSPECTOR_WAS_RESTARTED
from dissectors.findings import Severity
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, OpenLine, ResponseLine, StallLine
from kproxy.verdict.cause import Cause

#: Maximum number of requests and groups that are tracked, so that a trace cannot fill the memory.
MAX_LASTING = 10_000
#: Findings that end when the request that they are about gets a response.
_WAITING_CODES: Final = frozenset({"C004", "C020"})
#: How connections that were open when the proxy or the capture ended are closed. No cause ends with them.
_STILL_OPEN: Final = frozenset({"shutdown", "proxy ended", "end of capture"})


class LastingCauses:
    """Counts in `Cause.lasting` what each cause stops now, or stopped when the observation ended."""

    def __init__(self) -> None:
        self._requests: dict[str, dict[int, list[Cause]]] = {}  # by connection and offset
        self._groups: dict[tuple[str, str, int | None], list[Cause]] = {}  # by stall
        self._count = 0
        self._cut_off_causes: list[Cause] = []  # causes of requests on connections that were still open
        self._cut_off_at: str | None = None  # when such a connection was last closed, until another one is opened

    def __bool__(self) -> bool:
        """Whether any cause is tracked."""
        return bool(self._count)

    def begin(self, cause: Cause, line: FindingLine) -> None:
        """Remember that a cause lasts until a request is answered, or until the stall of a group ends."""
        if line.severity == Severity.INFO:
            return
        if line.group_id is not None and self._count < MAX_LASTING:
            self._begin(cause, self._groups.setdefault((line.group_id, line.connection_id, line.offset), []))
        elif line.code in _WAITING_CODES and line.offset is not None:
            self.begin_request(cause, line.connection_id, line.offset)

    def begin_request(self, cause: Cause, connection_id: str, offset: int) -> None:
        """Remember that a cause lasts until this request is answered."""
        if self._count < MAX_LASTING:
            self._begin(cause, self._requests.setdefault(connection_id, {}).setdefault(offset, []))

    def _begin(self, cause: Cause, causes: list[Cause]) -> None:
        if cause not in causes:
            causes.append(cause)
            cause.lasting += 1
            self._count += 1

    def end(self, line: Line, *, is_alone: bool) -> None:
        """End the causes that end with a line. `is_alone` tells whether no connection was open before it."""
        if isinstance(line, ResponseLine):
            requests = self._requests.get(line.connection_id)
            if requests is not None and line.request_offset is not None:
                self._end(requests.pop(line.request_offset, ()))
        elif isinstance(line, StallLine):
            if line.until is not None and line.ts != self._cut_off_at:
                self._end(self._groups.pop((line.group_id, line.connection_id, line.request_offset), ()))
        elif isinstance(line, GapLine):
            if not line.connection_id and line.reason.startswith(
                INSPECTOR_WAS_RESTARTED
            ):  # the inspector that tracked the groups has failed
                self._end_groups()
        elif isinstance(line, OpenLine | CloseLine):
            causes = [cause for causes in self._requests.pop(line.connection_id, {}).values() for cause in causes]
            if isinstance(line, CloseLine) and line.how in _STILL_OPEN:
                self._cut_off_at = line.ts
                self._cut_off_causes += causes
            else:
                self._end(causes)
                if isinstance(line, OpenLine):
                    if is_alone and self._cut_off_at is not None:  # another run
                        self._end_all()
                    self._cut_off_at = None

    def close(self) -> None:
        """End the observation, and stop tracking the causes that last now."""
        self._requests.clear()
        self._groups.clear()
        self._cut_off_causes.clear()
        self._count, self._cut_off_at = 0, None

    def _end(self, causes: list[Cause] | tuple[()]) -> None:
        for cause in causes:
            cause.lasting -= 1
        self._count -= len(causes)

    def _end_groups(self) -> None:
        for causes in self._groups.values():
            self._end(causes)
        self._groups.clear()

    def _end_all(self) -> None:
        self._end(self._cut_off_causes)
        self._end_groups()
        self.close()
