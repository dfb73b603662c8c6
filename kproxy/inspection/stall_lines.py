"""Stalls of consumer groups as trace lines: when they begin, while they last, and when they end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from kproxy.groups import GroupsOverview, Stall, StallKind
from kproxy.groups.model import SECOND, GroupHistory
from kproxy.groups.stalls.all_stalls import lasting_stalls
from kproxy.trace.lines import FORMAT, CloseLine, GapLine, Line, OpenLine, RequestLine, ResponseLine, StallLine
from kproxy.trace.pairing import RequestPairing
from kproxy.trace.timestamps import timestamp

#: Number of requests whose offsets are kept. A stall that began with an older one does not name it.
_MAX_REQUESTS = 40_000
#: Groups are checked once a second; with more members than this, less often.
_MEMBERS_PER_SECOND = 100

_Id: TypeAlias = tuple[str, StallKind, int, int]


@dataclass(slots=True)
class _Lasting:
    group: GroupHistory
    stall: Stall
    seen_at: int
    written_at: int


class StallLines:
    """Detects stalls in the lines of groups, which it must get in the order of the trace.

    A stall is written when it is detected, when it becomes more severe, each time its duration has doubled, and when it
    ends. If its end is not observed, its last line has its last known state.

    Attributes:
        due: When `tick` must be called next (ns).
    """

    def __init__(self) -> None:
        self.due = 0
        self._groups = GroupsOverview(timeline=False)
        self._pairing: RequestPairing[int] = RequestPairing()
        self._row = 0
        self._requests: dict[int, tuple[int, str, str, int]] = {}  # of the latest requests
        self._lasting: dict[_Id, _Lasting] = {}

    def observe(self, line: Line, *, at: int) -> list[StallLine]:
        """Apply the next line, at time `at` (ns): a frame about a group, a gap or the end of a connection.

        Returns lines of the stalls that it ended.
        """
        row = self._row = self._row + 1
        requests: Collection[int] = ()
        if isinstance(line, RequestLine):
            self._requests[row % _MAX_REQUESTS] = row, line.connection_id, line.server, line.offset
            requests = (row,) if self._pairing.add(line, row) else ()
        elif isinstance(line, ResponseLine):
            request = self._pairing.match(line)
            requests = () if request is None else (request,)
        else:
            if isinstance(line, OpenLine | CloseLine | GapLine):
                requests = self._pairing.end(line)
            self._groups.observe(line, row, at, requests)
            return [each for group in self._groups.each() for each in self._ended(group, at)]
        group = self._groups.observe_frame(line, row, at, requests)
        return list(self._ended(group, at)) if group is not None and group.newly_ended else []

    def tick(self, *, at: int) -> list[StallLine]:
        """Advance the time to `at` (ns); returns lines of stalls that last."""
        self.due = at + SECOND * max(1, self._groups.lanes // _MEMBERS_PER_SECOND)
        lines: list[StallLine] = []
        lasting = {
            _id(group, stall): (group, stall) for group in self._groups.each() for stall in lasting_stalls(group, at)
        }
        for key in [key for key in self._lasting if key not in lasting]:
            lines += self._final_line(self._lasting.pop(key), at)
        for key, (group, stall) in lasting.items():
            known = self._lasting.get(key)
            if known is None:
                self._lasting[key] = _Lasting(group, stall, at, at)
            else:
                changed = stall.severity != known.stall.severity
                known.group, known.stall, known.seen_at = group, stall, at
                if not changed and at - stall.since < 2 * (known.written_at - stall.since):
                    continue
                known.written_at = at
            lines.append(self._line(group, stall, at, at))
        return lines

    def end(self, *, at: int) -> list[StallLine]:
        """End the trace at `at` (ns); returns lines of stalls that still lasted."""
        lines = [line for each in self._lasting.values() for line in self._final_line(each, at)]
        self._lasting.clear()
        return lines

    def _final_line(self, lasting: _Lasting, at: int) -> Iterator[StallLine]:
        if lasting.seen_at > lasting.written_at:
            yield self._line(lasting.group, lasting.stall, lasting.seen_at, at)

    def _ended(self, group: GroupHistory, at: int) -> Iterator[StallLine]:
        ended = list(islice(reversed(group.ended_stalls), group.newly_ended))
        group.newly_ended = 0
        for stall in reversed(ended):
            if stall.kind is not StallKind.FINDING and stall.until is not None:
                self._lasting.pop(_id(group, stall), None)
                yield self._line(group, stall, stall.until, at)

    def _line(self, group: GroupHistory, stall: Stall, until: int, at: int) -> StallLine:
        row, connection_id, server, offset = self._requests.get(stall.row % _MAX_REQUESTS, (-1, "", None, None))
        if row != stall.row:
            connection_id, server, offset = _connection(group, stall), None, None
        return StallLine(
            v=FORMAT,
            ts=timestamp(at),
            connection_id=connection_id,
            server=server,
            group_id=group.id,
            stall=stall.kind.value,
            severity=stall.severity,
            since=timestamp(stall.since),
            until=None if stall.until is None else timestamp(stall.until),
            duration_us=until // 1000 - stall.since // 1000,
            message=stall.text,
            hint=stall.hint,
            request_offset=offset,
            error_name=stall.error or None,
            times=stall.times,
            waiting=_labels(group, stall.waiting),
            waiting_ids=_ids(stall.waiting),
            blamed=_labels(group, stall.blamed),
            blamed_ids=_ids(stall.blamed),
        )


def _id(group: GroupHistory, stall: Stall) -> _Id:
    return group.id, stall.kind, stall.since, stall.row


def _labels(group: GroupHistory, keys: Iterable[str]) -> list[str]:
    return [key if (lane := group.lanes.get(key)) is None else lane.label for key in keys]


def _ids(keys: Iterable[str]) -> list[str]:
    """Member ids. A key that begins with NUL is a connection or a client whose member id is unknown."""
    return [key.lstrip("\0").replace("\0", " ") for key in keys]


def _connection(group: GroupHistory, stall: Stall) -> str:
    """The connection of the first member of a stall, for a stall whose request is unknown."""
    lanes = (group.lanes.get(key) for key in (*stall.waiting, *stall.blamed))
    return next((lane.connection_id for lane in lanes if lane is not None), "")
