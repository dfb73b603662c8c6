"""Assign each frame to the lane of the member that it names, otherwise of the member that uses its connection."""

from __future__ import annotations

from dissectors.bounded import MAX_NAME_LENGTH, EvictionCountingDict
from dissectors.connections.addresses import ClientKey, client_of
from dissectors.groups import lifecycle
from dissectors.groups.facts import GroupFrame
from dissectors.groups.model import Event, EventKind, GroupHistory, Lane
from dissectors.plain_text import printable_text

#: Limits on the lanes of all groups, on connections that are assigned to lanes, and on groups per connection.
MAX_LANES = 10_000
MAX_CONNECTIONS = 20_000
MAX_GROUPS_PER_CONNECTION = 20

#: Lengths, in characters, of a label and of the UUID at the end of a member id.
_LABEL_LENGTH = 40
_UUID_LENGTH = 36

#: Requests that only the member itself sends. A producer may commit on another connection (TxnOffsetCommit).
_MEMBER_REQUESTS = frozenset({EventKind.JOIN, EventKind.SYNC, EventKind.HEARTBEAT})


class Lanes:
    """Finds or creates the lane of each frame. `groups` maps group ids to groups."""

    def __init__(self, groups: EvictionCountingDict[str, GroupHistory]) -> None:
        self._groups = groups
        self._by_age: EvictionCountingDict[tuple[str, str], None] = EvictionCountingDict(MAX_LANES)
        self._by_connection: EvictionCountingDict[str, dict[str, str]] = EvictionCountingDict(MAX_CONNECTIONS)

    def lanes_of(self, connection_id: str) -> list[tuple[GroupHistory, Lane]]:
        """Return the lanes of the members that use a connection."""
        lanes = []
        for group_id, key in self._by_connection.get(connection_id, {}).items():
            group = self._groups.get(group_id)
            if group is not None and (lane := group.lanes.get(key)) is not None:
                lanes.append((group, lane))
        return lanes

    def remove_connection(self, connection_id: str) -> list[tuple[GroupHistory, Lane]]:
        """Remove a connection that has ended; return its lanes."""
        lanes = self.lanes_of(connection_id)
        self._by_connection.pop(connection_id, None)
        return lanes

    def find_or_add(self, group: GroupHistory, frame: GroupFrame, kind: EventKind, row: int, at: int) -> Lane:
        """Return the lane of a frame, marked as the most recently used one."""
        connection_id = frame.connection_id
        member_id = (frame.member_id or "")[:MAX_NAME_LENGTH]
        anonymous_key = "\0" + connection_id
        if member_id:
            key = member_id
        elif kind is EventKind.COORDINATOR:
            client = client_of(frame.client, frame.client_id)
            key = group.clients.get(client, "\0\0" + "\0".join(client))
        elif kind is EventKind.JOIN:
            key = anonymous_key
        else:
            key = self._by_connection.get(connection_id, {}).get(group.id, anonymous_key)
        lane = group.lanes.get(key)
        if lane is None:
            client = client_of(frame.client, frame.client_id)
            lane = self._adopt(group, key, member_id, anonymous_key, client) or self._add_new(
                group, key, frame, client, row, at
            )
            lane.label = label(lane.client_id, member_id)
            group.clients[client] = key
        else:
            group.lanes.move_to_end(key)
            self._touch(group, key)
        if kind in _MEMBER_REQUESTS or (not lane.connection_id and kind is not EventKind.COORDINATOR):
            if lane.connection_id != connection_id or kind is EventKind.JOIN:
                self._bind(group, lane, connection_id)
                if kind is EventKind.JOIN and member_id:
                    group.clients[client_of(frame.client, frame.client_id)] = key
                    _merge(group, lane, group.lanes.get(anonymous_key))
            lane.end_reason = ""
        lane.last = at
        return lane

    def _bind(self, group: GroupHistory, lane: Lane, connection_id: str) -> None:
        """Record that the member of a lane uses a connection."""
        lane.connection_id = connection_id
        lane_keys = self._by_connection.setdefault(connection_id, {})
        previous_lane = group.lanes.get(lane_keys.get(group.id, ""))
        if previous_lane is not None and previous_lane is not lane and previous_lane.connection_id == connection_id:
            # The client joined with a new member id and will not use the previous one again.
            lane.unsynced_joins, lane.unsynced_since = previous_lane.unsynced_joins, previous_lane.unsynced_since
            lane.disturbance, previous_lane.disturbance = previous_lane.disturbance or lane.disturbance, None
            lifecycle.on_replacement(group, previous_lane, lane.last or previous_lane.last)
        if len(lane_keys) < MAX_GROUPS_PER_CONNECTION or group.id in lane_keys:
            lane_keys[group.id] = lane.key

    def _adopt(
        self, group: GroupHistory, key: str, member_id: str, anonymous_key: str, client: ClientKey
    ) -> Lane | None:
        """Return the lane of a connection or client whose member id has become known, moved to its new key."""
        for previous_key in (anonymous_key, "\0\0" + "\0".join(client)):
            lane = group.lanes.get(previous_key)
            if lane is not None and key != previous_key:
                del group.lanes[previous_key]
                self._by_age.pop((group.id, previous_key), None)
                lane.key, lane.member_id = key, member_id
                self._add(group, lane)
                return lane
        return None

    def _add_new(self, group: GroupHistory, key: str, frame: GroupFrame, client: ClientKey, row: int, at: int) -> Lane:
        lane = Lane(key, "" if key[:1] == "\0" else key, client[1], frame.client[:MAX_NAME_LENGTH], "", at, row)
        self._add(group, lane)
        return lane

    def _add(self, group: GroupHistory, lane: Lane) -> None:
        if len(self._by_age) >= MAX_LANES:
            (group_id, key), _ = self._by_age.popitem(last=False)
            if (oldest_group := self._groups.get(group_id)) is not None and oldest_group.lanes.pop(
                key, None
            ) is not None:
                oldest_group.lanes.evicted += 1
        group.lanes[lane.key] = lane
        self._by_age[group.id, lane.key] = None

    def _touch(self, group: GroupHistory, key: str) -> None:
        lane_id = group.id, key
        if lane_id in self._by_age:
            self._by_age.move_to_end(lane_id)
        else:
            self._by_age[lane_id] = None

    def __len__(self) -> int:
        return len(self._by_age)


def _merge(group: GroupHistory, lane: Lane, anonymous_lane: Lane | None) -> None:
    """Move the events of an anonymous lane into the lane of its member, which has become known."""
    if anonymous_lane is None or anonymous_lane is lane:
        return
    del group.lanes[anonymous_lane.key]
    lane.transitions = sorted((*anonymous_lane.transitions, *lane.transitions), key=_event_time)
    lane.recurring = sorted((*anonymous_lane.recurring, *lane.recurring), key=_event_time)
    lane.in_flight |= anonymous_lane.in_flight
    anonymous_lane.in_flight = lane.in_flight  # so that responses still find their requests


def _event_time(event: Event) -> int:
    return event.at


def label(client_id: str, member_id: str) -> str:
    """Return a short printable name of a member: its client id and the start of the unique part of its member id.

    Kafka composes a member id of the client id, or the instance id of a static member, and a UUID.
    """
    suffix = member_id.removeprefix(client_id + "-")
    if len(suffix) > _UUID_LENGTH + 1 and suffix.count("-", -_UUID_LENGTH) == 4:
        abbreviation = f"{suffix[: -_UUID_LENGTH - 1][: _LABEL_LENGTH // 2]}-{suffix[-_UUID_LENGTH:][:4]}"
    else:
        abbreviation = suffix[:6]
    return (
        printable_text(f"{client_id[: _LABEL_LENGTH - len(abbreviation)]} {abbreviation}".strip()) or "(no client id)"
    )
