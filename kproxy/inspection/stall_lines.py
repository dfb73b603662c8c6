"""Stalls of consumer groups as trace lines: when one begins, as it goes on, and when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from kproxy.groups import GroupsOverview, Stall, StallKind
from kproxy.groups.model import SECOND, GroupHistory
from kproxy.groups.stalls.all_stalls import lasting_stalls
from kproxy.trace.clock import timestamp
from kproxy.trace.lines import FORMAT, Line, RequestLine, ResponseLine, StallLine

#: Requests whose places are known; a stall that began with an earlier one does not name it.
_MOST_PLACES = 40_000
#: Groups are looked at once a second, the more seldom the more members they have.
_MEMBERS_A_SECOND = 100

_Id: TypeAlias = tuple[str, StallKind, int, int]


@dataclass(slots=True)
class _Lasting:
    group: GroupHistory
    stall: Stall
    seen_at: int
    written_at: int


class StallLines:
    """Detects stalls in the lines of groups, which it takes in the order of the trace.

    A stall is written when it is detected, when it becomes more severe, each time when its duration has doubled, and
    when it ends. If its end is not seen, its last line is as it was last seen.

    Attributes:
        due: When `tick` has something to do (ns).
    """

    def __init__(self) -> None:
        self.due = 0
        self._groups = GroupsOverview(timeline=False)
        self._row = 0
        self._places: dict[int, tuple[int, str, str, int]] = {}  # the latest ones
        self._lasting: dict[_Id, _Lasting] = {}

    def take(self, line: Line, *, at: int) -> list[StallLine]:
        """Take the next line, of time `at` (ns): a frame about a group, a gap or the end of a connection.

        Returns what has ended with it.
        """
        row = self._row = self._row + 1
        if isinstance(line, RequestLine):
            self._places[row % _MOST_PLACES] = row, line.connection_id, line.server, line.offset
        elif not isinstance(line, ResponseLine):
            self._groups.take(line, row, at)
            return [each for group in self._groups.each() for each in self._ended(group, at)]
        group = self._groups.take_frame(line, row, at)
        return list(self._ended(group, at)) if group is not None and group.just_over else []

    def tick(self, *, at: int) -> list[StallLine]:
        """Time has come to `at`: what lasts."""
        self.due = at + SECOND * max(1, self._groups.lanes // _MEMBERS_A_SECOND)
        lines: list[StallLine] = []
        lasting = {
            _id(group, stall): (group, stall) for group in self._groups.each() for stall in lasting_stalls(group, at)
        }
        for key in [key for key in self._lasting if key not in lasting]:
            lines += self._last(self._lasting.pop(key), at)
        for key, (group, stall) in lasting.items():
            known = self._lasting.get(key)
            if known is None:
                self._lasting[key] = _Lasting(group, stall, at, at)
            else:
                worse = stall.severity != known.stall.severity
                known.group, known.stall, known.seen_at = group, stall, at
                if not worse and at - stall.since < 2 * (known.written_at - stall.since):
                    continue
                known.written_at = at
            lines.append(self._line(group, stall, at, at))
        return lines

    def end(self, *, at: int) -> list[StallLine]:
        """The trace ends at `at`: what lasted then."""
        lines = [line for each in self._lasting.values() for line in self._last(each, at)]
        self._lasting.clear()
        return lines

    def _last(self, lasting: _Lasting, at: int) -> Iterator[StallLine]:
        if lasting.seen_at > lasting.written_at:
            yield self._line(lasting.group, lasting.stall, lasting.seen_at, at)

    def _ended(self, group: GroupHistory, at: int) -> Iterator[StallLine]:
        ended = list(islice(reversed(group.past), group.just_over))
        group.just_over = 0
        for stall in reversed(ended):
            if stall.kind is not StallKind.FINDING and stall.until is not None:
                self._lasting.pop(_id(group, stall), None)
                yield self._line(group, stall, stall.until, at)

    def _line(self, group: GroupHistory, stall: Stall, until: int, at: int) -> StallLine:
        row, connection_id, server, offset = self._places.get(stall.row % _MOST_PLACES, (-1, "", None, None))
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
            hint=stall.look,
            request_offset=offset,
            error_name=stall.error or None,
            times=stall.times,
            waiting=_labels(group, stall.who),
            waiting_ids=_ids(stall.who),
            blamed=_labels(group, stall.blamed),
            blamed_ids=_ids(stall.blamed),
        )


def _id(group: GroupHistory, stall: Stall) -> _Id:
    return group.id, stall.kind, stall.since, stall.row


def _labels(group: GroupHistory, keys: Iterable[str]) -> list[str]:
    return [key if (lane := group.lanes.get(key)) is None else lane.label for key in keys]


def _ids(keys: Iterable[str]) -> list[str]:
    """Member ids; a key without one begins with NUL, and is the connection, or the client, that speaks for it."""
    return [key.lstrip("\0").replace("\0", " ") for key in keys]


def _connection(group: GroupHistory, stall: Stall) -> str:
    """The connection of a stall whose request is not known: that of the first member that it is about."""
    lanes = (group.lanes.get(key) for key in (*stall.who, *stall.blamed))
    return next((lane.connection_id for lane in lanes if lane is not None), "")
