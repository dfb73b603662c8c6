"""Members of groups: their session, their connection, and when each was last active."""

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
from dissectors.schemas.codes import Error
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState

_MS = 1_000_000
_MOST_MEMBERS = 10_000

REBALANCE_IN_PROGRESS = Error.REBALANCE_IN_PROGRESS
_GONE = (Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID)

#: The deadline for the next sign of life of a member, and what it takes for a sign of life: from each on it waits anew.
LATE = "member silent"
_SIGNS = ("SyncGroup", "Heartbeat", "OffsetCommit")

Event = RequestReceived | ResponseReceived | BytesSkipped | FramingLost | ConnectionEnded


@dataclass(slots=True)
class MemberConnection:
    """A connection as its members' voice: what was said before `deaf` (ns) may have been followed by more."""

    deaf: int = -1


@dataclass(slots=True)
class Member:
    """A member of a group (classic protocol). `session` in ns.

    It is `active` from its assignment on until it joins again or is sent away: only then it has to speak. `flaps` is
    for whoever counts them.
    """

    group: str
    id: str
    session: int
    generation: int
    joined_at: int
    seen_at: int
    line: MemberConnection
    active: bool = False
    flaps: int = 0

    @property
    def must_speak(self) -> bool:
        """Whether its silence is a fault: it has an assignment, and its connection is there with all of its bytes."""
        return self.active and self.session > 0 and self.seen_at > self.line.deaf


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped, FramingLost, ConnectionEnded),
    apis=("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "LeaveGroup"),
    broken=True,
)
class Members:
    """The members of a run's groups. `joined` and `left` are those of the latest event."""

    def __init__(self) -> None:
        self.joined: Member | None = None
        self.left: list[Member] = []
        self._members: BoundedDict[tuple[str, str], Member] = BoundedDict(_MOST_MEMBERS)

    def find(self, group: str | None, member_id: str | None) -> Member | None:
        """A member, None if its JoinGroup was not seen."""
        return self._members.get((group or "", member_id or ""))

    def observe(self, event: Event, connection: ConnectionState) -> None:
        """Take in what a member does, or what it is answered."""
        self.joined, self.left = None, []
        if isinstance(event, FRAME_EVENTS):
            message = event.message
            if message is not None and message.reads_well and not event.damaged:
                if isinstance(event, ResponseReceived):
                    self._response(event, connection)
                elif self._members:
                    self._request(event, connection)
            elif isinstance(event, RequestReceived):
                connection.state(MemberConnection).deaf = event.at
        else:
            connection.state(MemberConnection).deaf = event.at if isinstance(event, BytesSkipped) else sys.maxsize

    def _request(self, event: RequestReceived, connection: ConnectionState) -> None:
        api, body = event.message.api, event.message.body
        group, member_id = body.get("group_id", ""), body.get("member_id", "")
        if api == "LeaveGroup":
            ids = [each.get("member_id", "") for each in body.get("members") or ()] or [member_id]
            self.left = [gone for each in ids if (gone := self._members.pop((group, each), None))]
        elif member := self._members.get((group, member_id)):
            member.seen_at, member.line = event.at, connection.state(MemberConnection)
            if api == "JoinGroup":
                member.active = False
            _expect(member, api, connection)

    def _response(self, event: ResponseReceived, connection: ConnectionState) -> None:
        asked, message = event.asked, event.message
        if asked is None or message is None:
            return
        api, body = message.api, message.body
        key = asked.get("group_id", ""), asked.get("member_id", "")
        code = body.get("error_code", 0)
        if api == "JoinGroup" and code == 0:
            self._join(asked, body, event.at, connection.state(MemberConnection))
        elif (member := self._members.get(key)) is None or api == "LeaveGroup":
            return
        elif api != "OffsetCommit" and code in _GONE:
            del self._members[key]
        else:
            if api == "SyncGroup" and code == 0:
                member.active, member.seen_at, member.line = True, event.at, connection.state(MemberConnection)
            elif api != "OffsetCommit" and code not in (0, REBALANCE_IN_PROGRESS):
                member.active = False
            _expect(member, api, connection)

    def _join(self, asked: dict[str, Any], body: dict[str, Any], at: int, line: MemberConnection) -> None:
        group, member_id = asked.get("group_id", ""), body.get("member_id", "")
        session = asked.get("session_timeout_ms", 0) * _MS
        member = Member(group, member_id, session, body.get("generation_id", -1), at, at, line)
        known = self._members.get((group, member_id))
        if known is not None:
            member.joined_at, member.flaps = known.joined_at, known.flaps
        self._members[group, member_id] = self.joined = member


def _expect(member: Member, api: str, connection: ConnectionState) -> None:
    """Wait for the next sign of life of a member that has to give one."""
    if api in _SIGNS and member.must_speak:
        key = member.group, member.id
        connection.expect(LATE, key, by=member.seen_at + member.session * 2 // 3, about=key)
