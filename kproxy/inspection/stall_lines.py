"""Stalls of consumer groups as trace lines: when they begin, while they are ongoing, and when they end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from dissectors import rules
from dissectors.groups import ConsumerGroups, Stall, StallKind
from dissectors.groups.events import GroupStalled
from dissectors.groups.model import SECOND, GroupHistory
from dissectors.groups.stalls.all_stalls import ongoing_stalls
from dissectors.trackers.state import ConnectionState
from kproxy.groups.overview import observe_line
from kproxy.inspection.event_lines import finding_line
from kproxy.trace.lines import FORMAT, Line, RequestLine, ResponseLine, StallLine
from kproxy.trace.timestamps import timestamp

#: Number of requests whose offsets are kept. A stall that began with an older one does not name it.
_MAX_REQUESTS = 40_000
#: Groups are checked once a second; with more members than this, less often.
_MEMBERS_PER_SECOND = 100

#: Creates a named tuple without running Python code, since this happens for each request of a group.
_new_tuple: Final = tuple.__new__

_StallId: TypeAlias = tuple[str, StallKind, int, int]


class _StallRequest(NamedTuple):
    """The facts that are kept about a request."""

    row: int
    connection_id: str
    server: str
    offset: int
    api: str | None
    api_version: int | None
    correlation_id: int | None


@dataclass(slots=True)
class _OngoingStall:
    group: GroupHistory
    stall: Stall
    seen_at: int
    written_at: int


class StallLines:
    """Detects stalls in the lines of groups, which must be passed in the order of the trace.

    A stall is written when it is detected, when it becomes more severe, each time its duration has doubled, and when it
    ends. If it is still ongoing when the trace ends, its last line has its last known state. When it is detected, and
    when it becomes more severe, a finding of family G precedes its line.

    Attributes:
        due: When `tick` must be called next (ns).
    """

    def __init__(self) -> None:
        self.due = 0
        self._groups = ConsumerGroups(timeline=False)
        self._row = 0
        self._requests: dict[int, _StallRequest] = {}  # the latest requests
        self._ongoing: dict[_StallId, _OngoingStall] = {}
        self._state = ConnectionState()  # for findings outside any connection

    def observe(self, line: Line, *, at: int) -> list[Line]:
        """Apply the next line, at time `at` (ns): a frame about a group, a gap or the end of a connection.

        Returns the lines of the stalls that it ended.
        """
        row = self._row = self._row + 1
        if isinstance(line, RequestLine) and line.not_decoded is None:
            self._requests[row % _MAX_REQUESTS] = _new_tuple(_StallRequest, (
                row, line.connection_id, line.server, line.offset, line.api, line.api_version, line.correlation_id,
            ))  # fmt: skip
            group = self._groups.on_request(line, row, at)
        elif isinstance(line, ResponseLine) and line.not_decoded is None:
            group = self._groups.on_response(line, row, at)
        else:
            observe_line(self._groups, line, row, at)
            return [stall for group in self._groups for stall in self._ended_stall_lines(group, at)]
        return list(self._ended_stall_lines(group, at)) if group is not None and group.newly_ended else []

    def tick(self, *, at: int) -> list[Line]:
        """Advance the time to `at` (ns); return the lines of ongoing stalls."""
        self.due = at + SECOND * max(1, self._groups.lanes // _MEMBERS_PER_SECOND)
        lines: list[Line] = []
        ongoing = {
            _stall_id(group, stall): (group, stall) for group in self._groups for stall in ongoing_stalls(group, at)
        }
        for key in [key for key in self._ongoing if key not in ongoing]:
            lines += self._vanished_stall_lines(self._ongoing.pop(key), at)
        for key, (group, stall) in ongoing.items():
            previous = self._ongoing.get(key)
            if previous is None:
                self._ongoing[key] = _OngoingStall(group, stall, at, at)
            else:
                is_severity_changed = stall.severity != previous.stall.severity
                previous.group, previous.stall, previous.seen_at = group, stall, at
                if not is_severity_changed and at - stall.since < 2 * (previous.written_at - stall.since):
                    continue
                previous.written_at = at
            lines += self._finding_and_stall_lines(group, stall, at, at)
        return lines

    def end(self, *, at: int) -> list[Line]:
        """End the trace at `at` (ns); return the lines of stalls that were still ongoing."""
        lines = [line for stall in self._ongoing.values() for line in self._final_lines(stall, at)]
        self._ongoing.clear()
        return lines

    def _vanished_stall_lines(self, ongoing: _OngoingStall, at: int) -> Iterator[Line]:
        """Yield the last line of a stall that is no longer ongoing, although no frame ended it."""
        stall = replace(ongoing.stall, until=ongoing.seen_at)
        yield self._stall_line(ongoing.group, stall, ongoing.seen_at, at)

    def _final_lines(self, ongoing: _OngoingStall, at: int) -> Iterator[Line]:
        if ongoing.seen_at > ongoing.written_at:
            yield from self._finding_and_stall_lines(ongoing.group, ongoing.stall, ongoing.seen_at, at)

    def _ended_stall_lines(self, group: GroupHistory, at: int) -> Iterator[Line]:
        ended = list(islice(reversed(group.ended_stalls), group.newly_ended))
        group.newly_ended = 0
        for stall in reversed(ended):
            if stall.kind is not StallKind.FINDING and stall.until is not None:
                self._ongoing.pop(_stall_id(group, stall), None)
                yield from self._finding_and_stall_lines(group, stall, stall.until, at)

    def _finding_and_stall_lines(self, group: GroupHistory, stall: Stall, duration_end: int, at: int) -> Iterator[Line]:
        """Yield the line of a stall, preceded by the finding if it is new or more severe."""
        line = self._stall_line(group, stall, duration_end, at)
        event = GroupStalled(at, group.id, stall.kind, stall.severity, stall.text, stall.hint, stall.since, stall.row)
        for finding in rules.check(event, self._state):
            finding_of_stall = finding_line(line.connection_id, event, finding)
            finding_of_stall.group_id = group.id
            if (request := self._find_request(stall)) is not None:
                finding_of_stall.direction, finding_of_stall.offset = "request", request.offset
                finding_of_stall.api, finding_of_stall.api_version, finding_of_stall.correlation_id = request[4:]
            yield finding_of_stall
        yield line

    def _find_request(self, stall: Stall) -> _StallRequest | None:
        """Return the request with which a stall began, None if it was too long ago."""
        request = self._requests.get(stall.row % _MAX_REQUESTS)
        return request if request is not None and request.row == stall.row else None

    def _stall_line(self, group: GroupHistory, stall: Stall, duration_end: int, at: int) -> StallLine:
        request = self._find_request(stall)
        return StallLine(
            v=FORMAT,
            ts=timestamp(at),
            connection_id=_connection_id(group, stall) if request is None else request.connection_id,
            server=None if request is None else request.server,
            group_id=group.id,
            stall=stall.kind.value,
            severity=stall.severity,
            since=timestamp(stall.since),
            until=None if stall.until is None else timestamp(stall.until),
            duration_us=duration_end // 1000 - stall.since // 1000,
            message=stall.text,
            hint=stall.hint,
            request_offset=None if request is None else request.offset,
            error_name=stall.error or None,
            times=stall.times,
            waiting=_labels(group, stall.waiting),
            waiting_ids=_member_ids(stall.waiting),
            blamed=_labels(group, stall.blamed),
            blamed_ids=_member_ids(stall.blamed),
        )


def _stall_id(group: GroupHistory, stall: Stall) -> _StallId:
    return group.id, stall.kind, stall.since, stall.row


def _labels(group: GroupHistory, keys: Iterable[str]) -> list[str]:
    return [key if (lane := group.lanes.get(key)) is None else lane.label for key in keys]


def _member_ids(keys: Iterable[str]) -> list[str]:
    """Return the member ids. A key that begins with NUL is a connection or client whose member id is unknown."""
    return [key.lstrip("\0").replace("\0", " ") for key in keys]


def _connection_id(group: GroupHistory, stall: Stall) -> str:
    """Return the connection of the first member of a stall, for a stall whose request is unknown."""
    lanes = (group.lanes.get(key) for key in (*stall.waiting, *stall.blamed))
    return next((lane.connection_id for lane in lanes if lane is not None), "")
