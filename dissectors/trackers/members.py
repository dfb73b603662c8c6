"""Members: the members of consumer groups, their session timeouts, connections and last activity."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import (
    FRAME_EVENTS,
    BytesSkipped,
    ConnectionEnded,
    FramingLost,
    RequestReceived,
    ResponseReceived,
)
from dissectors.limits import Limit
from dissectors.schemas.codes import Error
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MS = 1_000_000
_MAX_MEMBERS = 10_000

REBALANCE_IN_PROGRESS = Error.REBALANCE_IN_PROGRESS
_REMOVAL_ERRORS = (Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID)

#: Kafka's default session timeout (ns).
_DEFAULT_SESSION = 45_000 * _MS

#: The deadline for a member's next sign of life, and the APIs that count as one and restart the deadline.
MEMBER_SILENT = "member silent"
_SIGNS_OF_LIFE = ("SyncGroup", "Heartbeat", "OffsetCommit")

HEARTBEATS = Limit("heartbeats", 3, "heartbeats", "fewer than so many fit into the session timeout", 2)
GAPS = Limit("gaps", 5, "gaps", "as so many times in a row between heartbeats show", 2)
#: Timers tend to be late rather than early: gaps may be longer by this factor.
_TOLERANCE = 1.05
_IRREGULAR = FrameFlags.IRREGULAR.value

Event = RequestReceived | ResponseReceived | BytesSkipped | FramingLost | ConnectionEnded


@dataclass(slots=True)
class MemberConnection:
    """The connection of a member: up to `lost_at` (ns), some of its requests may have been lost."""

    lost_at: int = -1


@dataclass(slots=True)
class Member:
    """A member of a group (classic protocol). `session` is its session timeout in ns.

    It is `active` from its assignment until it rejoins or is removed; only then must it send heartbeats. It `waits` for
    the response to its last sign of life: until it arrives, clients send no other. `flaps` is a counter for rules.
    Its last heartbeat was at `heartbeat_sent_at` (ns), and `shortest_gap` is the shortest of the latest `gaps` gaps.
    """

    group: str
    id: str
    session: int
    generation: int
    joined_at: int
    seen_at: int
    member_connection: MemberConnection
    active: bool = False
    waits: bool = False
    flaps: int = 0
    heartbeat_sent_at: int = 0
    shortest_gap: int = 0
    gaps: int = 0

    @property
    def must_heartbeat(self) -> bool:
        """Whether missing heartbeats are a problem: it has an assignment, and its connection has no gaps."""
        return self.active and self.session > 0 and self.seen_at > self.member_connection.lost_at


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped, FramingLost, ConnectionEnded),
    apis=("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "LeaveGroup"),
    broken=True,
)
class Members:
    """The members of a run's groups. `joined`, `left` and `sparse` are set by the latest event.

    `sparse` is a member that sends heartbeats too rarely for its session timeout.
    """

    def __init__(self) -> None:
        self.joined: Member | None = None
        self.left: list[Member] = []
        self.sparse: Member | None = None
        self._members: BoundedDict[tuple[str, str], Member] = BoundedDict(_MAX_MEMBERS)

    def find(self, group: str | None, member_id: str | None) -> Member | None:
        """Return a member; None if its JoinGroup was not captured."""
        return self._members.get((group or "", member_id or ""))

    def has_members(self, group: str, at: int) -> bool:
        """Whether a member of a group was seen within its session timeout."""
        return any(
            member.group == group and at - member.seen_at <= (member.session or _DEFAULT_SESSION)
            for member in self._members.values()
        )

    def observe(self, event: Event, connection: ConnectionState) -> None:
        """Update the members."""
        self.joined, self.left, self.sparse = None, [], None
        if isinstance(event, FRAME_EVENTS):
            message = event.message
            if message is not None and message.well_formed and not event.damaged:
                if isinstance(event, ResponseReceived):
                    self._observe_response(event, connection)
                elif self._members:
                    self._observe_request(event, connection)
            elif isinstance(event, RequestReceived):
                connection.state(MemberConnection).lost_at = event.at
        else:
            connection.state(MemberConnection).lost_at = event.at if isinstance(event, BytesSkipped) else sys.maxsize

    def _observe_request(self, event: RequestReceived, connection: ConnectionState) -> None:
        api, body = event.message.api, event.message.body
        group, member_id = body.get("group_id", ""), body.get("member_id", "")
        if api == "LeaveGroup":
            ids = [entry.get("member_id", "") for entry in body.get("members") or ()] or [member_id]
            self.left = [member for member_id in ids if (member := self._members.pop((group, member_id), None))]
        elif member := self._members.get((group, member_id)):
            member.seen_at, member.member_connection, member.waits = event.at, connection.state(MemberConnection), True
            if api == "JoinGroup":
                member.active = False
            elif api in _SIGNS_OF_LIFE and member.must_heartbeat:
                _set_deadline(member, connection)
            if api == "Heartbeat":
                self._observe_heartbeat(member, event.at, connection)

    def _observe_heartbeat(self, member: Member, at: int, connection: ConnectionState) -> None:
        """Measure the time since the last heartbeat; set `sparse` if too few of the shortest gaps fit a session."""
        gap_ns, member.heartbeat_sent_at = at - member.heartbeat_sent_at, at
        if not 0 < gap_ns < member.session:  # its first one, or it was late
            return
        member.shortest_gap = min(member.shortest_gap, gap_ns) if member.gaps else gap_ns
        member.gaps += 1
        run = connection.run
        if member.gaps >= run.limit(GAPS):
            if member.shortest_gap * run.limit(HEARTBEATS) > member.session * _TOLERANCE:
                self.sparse = member
                connection.flags |= _IRREGULAR
            member.gaps = 0

    def _observe_response(self, event: ResponseReceived, connection: ConnectionState) -> None:
        request_body, message = event.request_body, event.message
        if request_body is None or message is None:
            return
        api, body = message.api, message.body
        key = request_body.get("group_id", ""), request_body.get("member_id", "")
        code = body.get("error_code", 0)
        if api == "JoinGroup" and code == 0:
            self._add_member(request_body, body, event.at, connection.state(MemberConnection))
        elif (member := self._members.get(key)) is None or api == "LeaveGroup":
            return
        elif api != "OffsetCommit" and code in _REMOVAL_ERRORS:
            del self._members[key]
        else:
            member.waits = False
            if api == "SyncGroup" and code == 0:
                member.active, member.seen_at, member.member_connection = (
                    True,
                    event.at,
                    connection.state(MemberConnection),
                )
            elif api != "OffsetCommit" and code not in (0, REBALANCE_IN_PROGRESS):
                member.active = False
            # Other responses keep their request's deadline, unless it has passed.
            if (
                api in _SIGNS_OF_LIFE
                and member.must_heartbeat
                and (api == "SyncGroup" or not _has_deadline(member, connection))
            ):
                _set_deadline(member, connection)

    def _add_member(
        self, request_body: dict[str, Any], body: dict[str, Any], at: int, member_connection: MemberConnection
    ) -> None:
        group, member_id = request_body.get("group_id", ""), body.get("member_id", "")
        session_ns = request_body.get("session_timeout_ms", 0) * _MS
        member = Member(group, member_id, session_ns, body.get("generation_id", -1), at, at, member_connection)
        previous = self._members.get((group, member_id))
        if previous is not None:
            member.joined_at, member.flaps = previous.joined_at, previous.flaps
            member.heartbeat_sent_at, member.shortest_gap, member.gaps = (
                previous.heartbeat_sent_at,
                previous.shortest_gap,
                previous.gaps,
            )
        self._members[group, member_id] = self.joined = member


def _set_deadline(member: Member, connection: ConnectionState) -> None:
    """Set the deadline for the next sign of life of an active member."""
    key = member.group, member.id
    connection.set_deadline(MEMBER_SILENT, key, by=member.seen_at + member.session * 2 // 3, about=key)


def _has_deadline(member: Member, connection: ConnectionState) -> bool:
    return (MEMBER_SILENT, (member.group, member.id)) in connection.run.deadlines
