"""Whose lane a line belongs to: the member's that it names, else that of the member whose connection it is."""

from __future__ import annotations

from kproxy.counting.bounded_dict import Recent
from kproxy.counting.names import LONGEST, Who, who_of
from kproxy.groups import lifecycle
from kproxy.groups.model import Event, EventKind, GroupHistory, Lane
from kproxy.trace.formatting import safe
from kproxy.trace.lines import RequestLine, ResponseLine

#: Lanes of all groups, connections that speak for them, groups of a connection.
MOST_ALL = 10_000
MOST_CONNECTIONS = 20_000
MOST_SPOKEN = 20

#: Characters of a label, and of a UUID at the end of a member id.
_LABEL = 40
_UUID = 36

#: What a member sends itself; a commit can come from a producer, on another connection (TxnOffsetCommit).
_OWN = frozenset({EventKind.JOIN, EventKind.SYNC, EventKind.HEARTBEAT})

Frame = RequestLine | ResponseLine


class Lanes:
    """Finds the lanes of lines and makes those that are missing; `groups` are all groups by id."""

    def __init__(self, groups: Recent[str, GroupHistory]) -> None:
        self._groups = groups
        self._all: Recent[tuple[str, str], None] = Recent(MOST_ALL)
        self._speaks: Recent[str, dict[str, str]] = Recent(MOST_CONNECTIONS)

    def spoken_for(self, connection_id: str) -> list[tuple[GroupHistory, Lane]]:
        """The lanes that a connection speaks for."""
        found = []
        for group_id, key in self._speaks.get(connection_id, {}).items():
            group = self._groups.get(group_id)
            if group is not None and (lane := group.lanes.get(key)) is not None:
                found.append((group, lane))
        return found

    def falls_silent(self, connection_id: str) -> list[tuple[GroupHistory, Lane]]:
        """The lanes that a connection spoke for, which has ended."""
        found = self.spoken_for(connection_id)
        self._speaks.pop(connection_id, None)
        return found

    def of(self, group: GroupHistory, line: Frame, kind: EventKind, row: int, at: int) -> Lane:
        """The lane of a line, as the latest that something happened in."""
        connection_id = line.connection_id
        member_id = (line.member_id or "")[:LONGEST]
        nameless = "\0" + connection_id
        if member_id:
            key = member_id
        elif kind is EventKind.COORDINATOR:
            who = who_of(line)
            key = group.clients.get(who, "\0\0" + "\0".join(who))
        elif kind is EventKind.JOIN:
            key = nameless
        else:
            key = self._speaks.get(connection_id, {}).get(group.id, nameless)
        lane = group.lanes.get(key)
        if lane is None:
            who = who_of(line)
            lane = self._adopted(group, key, member_id, nameless, who) or self._new(group, key, line, row, at)
            lane.label = label(lane.client_id, member_id)
            group.clients[who] = key
        else:
            group.lanes.move_to_end(key)
            self._touch(group, key)
        if kind in _OWN or (not lane.connection_id and kind is not EventKind.COORDINATOR):
            if lane.connection_id != connection_id or kind is EventKind.JOIN:
                self._speak(group, lane, connection_id)
                if kind is EventKind.JOIN and member_id:
                    group.clients[who_of(line)] = key
                    _merge(group, lane, group.lanes.get(nameless))
            lane.gone = ""
        lane.last = at
        return lane

    def _speak(self, group: GroupHistory, lane: Lane, connection_id: str) -> None:
        lane.connection_id = connection_id
        spoken = self._speaks.setdefault(connection_id, {})
        before = group.lanes.get(spoken.get(group.id, ""))
        if before is not None and before is not lane and before.connection_id == connection_id:
            # A client that joins as somebody new: whom it was before it will not be again.
            lane.unsynced, lane.unsynced_since = before.unsynced, before.unsynced_since
            lifecycle.renamed(group, before, lane.last or before.last)
        if len(spoken) < MOST_SPOKEN or group.id in spoken:
            spoken[group.id] = lane.key

    def _adopted(self, group: GroupHistory, key: str, member_id: str, nameless: str, who: Who) -> Lane | None:
        """What was so far the lane of a connection or of a client, which now has a better name."""
        for earlier in (nameless, "\0\0" + "\0".join(who)):
            lane = group.lanes.get(earlier)
            if lane is not None and key != earlier:
                del group.lanes[earlier]
                self._all.pop((group.id, earlier), None)
                lane.key, lane.member_id = key, member_id
                self._add(group, lane)
                return lane
        return None

    def _new(self, group: GroupHistory, key: str, line: Frame, row: int, at: int) -> Lane:
        lane = Lane(key, "" if key[:1] == "\0" else key, who_of(line)[1], line.client[:LONGEST], "", at, row)
        self._add(group, lane)
        return lane

    def _add(self, group: GroupHistory, lane: Lane) -> None:
        if len(self._all) >= MOST_ALL:
            (group_id, key), _ = self._all.popitem(last=False)
            if (full := self._groups.get(group_id)) is not None and full.lanes.pop(key, None) is not None:
                full.lanes.let_go += 1
        group.lanes[lane.key] = lane
        self._all[group.id, lane.key] = None

    def _touch(self, group: GroupHistory, key: str) -> None:
        place = group.id, key
        if place in self._all:
            self._all.move_to_end(place)
        else:
            self._all[place] = None

    def __len__(self) -> int:
        return len(self._all)


def _merge(group: GroupHistory, lane: Lane, nameless: Lane | None) -> None:
    """Into the lane of a member that is known what was not known to be its own."""
    if nameless is None or nameless is lane:
        return
    del group.lanes[nameless.key]
    lane.steps = sorted((*nameless.steps, *lane.steps), key=_time)
    lane.beats = sorted((*nameless.beats, *lane.beats), key=_time)
    lane.waiting |= nameless.waiting


def _time(event: Event) -> int:
    return event.at


def label(client_id: str, member_id: str) -> str:
    """A member in a few characters: client id, and what tells it apart; fit for a screen.

    Kafka makes member ids of the client id, or of the instance id of a static member, and a UUID.
    """
    rest = member_id.removeprefix(client_id + "-")
    if len(rest) > _UUID + 1 and rest.count("-", -_UUID) == 4:
        short = f"{rest[: -_UUID - 1][: _LABEL // 2]}-{rest[-_UUID:][:4]}"
    else:
        short = rest[:6]
    return safe(f"{client_id[: _LABEL - len(short)]} {short}".strip()) or "(no client id)"
