"""GrantedGenerations: the generations that coordinators gave to members, and whether they contradict themselves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.messages import summary
from dissectors.schemas.codes import Error
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger
from dissectors.trackers.versions import client_key

_MS = 1_000_000
_SECOND = 1_000_000_000
_MAX_GROUPS = 10_000
_MAX_MEMBERS = 10_000
_MAX_STREAKS = 10_000

#: A session lasts at least this long (ns): group.min.session.timeout.ms, less a second.
_MIN_SESSION = 5 * _SECOND

#: A group counts as contradicted for this long (ns); rebalances that are further apart are not counted together.
MAX_CONTRADICTION_AGE = 60 * _SECOND

#: FENCED_MEMBER_EPOCH is not included: a member that was too slow gets it for its newest epoch, and rejoins.
_STALE_ERRORS = (Error.ILLEGAL_GENERATION, Error.STALE_MEMBER_EPOCH)
_COUNTED_ERRORS = (*_STALE_ERRORS, Error.UNKNOWN_MEMBER_ID)

#: Server, group, client, API and error.
_StreakKey: TypeAlias = tuple[str, str, tuple[str, str | None], str, int]


@dataclass(slots=True)
class _Member:
    """A member: its latest generation or epoch, when that was granted, and when a request last succeeded (ns)."""

    generation: int
    granted_at: int
    accepted_at: int
    session: int
    must_rejoin: bool = False


@dataclass(slots=True)
class _Group:
    """The newest generation of a classic group: its members, as the leader received them, and the members seen to join.

    `is_rebalance_expected`: a member has sent JoinGroup or LeaveGroup since. `is_baseless`: the coordinator has
    reported a rebalance that nobody asked for.
    `repeats` counts the consecutive rebalances that nobody asked for, each of which led to the same members.
    """

    generation: int = -1
    began_at: int = 0
    members: frozenset[str] = frozenset()
    joined: set[str] = field(default_factory=set)
    is_rebalance_expected: bool = False
    is_baseless: bool = False
    repeats: int = 0
    contradicted_at: int | None = None


@dataclass(frozen=True, slots=True)
class SelfContradiction:
    """A coordinator's refusal of what it had granted, the `times`-th in a row.

    `generation` is the member's generation or epoch, `before` the time (ns) since the coordinator gave or accepted it.
    `members` is the number of members if the coordinator reports a rebalance that nobody asked for, otherwise None.
    """

    error: Error
    group: str
    member_id: str
    generation: int
    before: int
    times: int
    members: int | None = None


@tracker(
    events=(ResponseReceived,),
    apis=("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat"),
    also=(Trigger((RequestReceived,), ("JoinGroup", "LeaveGroup")),),
)
class GrantedGenerations:
    """The generations and epochs that coordinators gave, by server, group and member.

    `contradiction` is how the latest response contradicts what its server said before: it calls the same generation
    illegal, it does not know a member that it just accepted, or it reports a rebalance that nobody began. A group is
    judged only as far as it is visible: a rebalance is judged only if all members are visible.
    """

    def __init__(self) -> None:
        self.contradiction: SelfContradiction | None = None
        self._groups: BoundedDict[tuple[str, str], _Group] = BoundedDict(_MAX_GROUPS)
        self._members: BoundedDict[tuple[str, str, str], _Member] = BoundedDict(_MAX_MEMBERS)
        self._streaks: BoundedDict[_StreakKey, int] = BoundedDict(_MAX_STREAKS)

    def latest_generation(self, server: str, group: str, member_id: str) -> tuple[int, int] | None:
        """Return the latest generation or epoch of a member, and when it was granted (ns); None if it is unknown."""
        member = self._members.get((server, group, member_id))
        return None if member is None else (member.generation, member.granted_at)

    def is_contradicted(self, server: str, group: str, at: int) -> bool:
        """Whether a server has recently contradicted what it had said about a group."""
        state = self._groups.get((server, group))
        return (
            state is not None
            and state.contradicted_at is not None
            and at - state.contradicted_at < MAX_CONTRADICTION_AGE
        )

    def observe(self, event: RequestReceived | ResponseReceived, connection: ConnectionState) -> None:
        """Update the generations, and set `contradiction`."""
        self.contradiction = None
        message = event.message
        if message is None or message.diagnosis is not None:
            return
        if isinstance(event, RequestReceived):
            if (group := self._groups.get((connection.server, message.body.get("group_id", "")))) is not None:
                group.is_rebalance_expected = True
            if message.api == "LeaveGroup":
                self._remove_members(message.body, connection.server)
        elif (request_body := event.request_body) is not None:
            code = _error_code(event)
            if code == 0:
                self._observe_success(message.api, request_body, message.body, event.at, connection)
            else:
                self._observe_refusal(event, request_body, code, connection)

    def _remove_members(self, body: dict[str, Any], server: str) -> None:
        ids = [member.get("member_id", "") for member in body.get("members") or ()] or [body.get("member_id", "")]
        for member_id in ids:
            self._members.pop((server, body.get("group_id", ""), member_id), None)

    def _observe_success(
        self, api: str, request_body: dict[str, Any], body: dict[str, Any], at: int, connection: ConnectionState
    ) -> None:
        server, group_id = connection.server, request_body.get("group_id", "")
        if self._streaks:
            for error in _COUNTED_ERRORS:
                self._streaks.pop((server, group_id, client_key(connection), api, error), None)
        member_id = body.get("member_id") or request_body.get("member_id", "")
        key = server, group_id, member_id
        if api == "JoinGroup":
            session_ns = request_body.get("session_timeout_ms", 0) * _MS
            self._members[key] = _Member(body["generation_id"], at, at, session_ns)
            self._update_group(self._groups.touch((server, group_id), _Group), body, at)
        elif api == "ConsumerGroupHeartbeat":
            epoch, known_member = body.get("member_epoch", 0), self._members.get(key)
            if epoch <= 0:
                self._members.pop(key, None)
            elif known_member is None or known_member.generation != epoch:
                self._members[key] = _Member(epoch, at, at, _MIN_SESSION)
            else:
                known_member.accepted_at = at
        elif (member := self._members.get(key)) is not None:
            member.accepted_at = at
            if api == "Heartbeat" and (group := self._groups.get((server, group_id))) is not None:
                group.repeats = 0  # whatever the reason for a rebalance, this generation was of some use

    def _update_group(self, group: _Group, body: dict[str, Any], at: int) -> None:
        generation = body["generation_id"]
        if generation != group.generation:
            if at - group.began_at > MAX_CONTRADICTION_AGE:
                group.repeats = 0
            group.generation, group.began_at, group.joined, group.is_rebalance_expected = generation, at, set(), False
        group.joined.add(body.get("member_id", ""))
        if members := frozenset(member.get("member_id", "") for member in body.get("members") or ()):
            is_unchanged = members == group.members
            group.repeats = group.repeats + 1 if is_unchanged and group.is_baseless else 0
            group.members, group.is_baseless = members, False

    def _observe_refusal(
        self, event: ResponseReceived, request_body: dict[str, Any], code: int, connection: ConnectionState
    ) -> None:
        assert event.message is not None
        api, server, group_id = event.message.api, connection.server, request_body.get("group_id", "")
        member_id = request_body.get("member_id", "")
        member = self._members.get((server, group_id, member_id))
        if member is None or api == "JoinGroup":
            return
        group = self._groups.touch((server, group_id), _Group)
        generation = request_body.get(
            "generation_id", request_body.get("generation_id_or_member_epoch", request_body.get("member_epoch"))
        )
        contradiction = None
        if code == Error.REBALANCE_IN_PROGRESS:
            member.must_rejoin = True
            if api != "OffsetCommit":
                contradiction = self._check_rebalance(group, group_id, member_id, event.at)
        elif code in _STALE_ERRORS:
            newest = group.generation if group.generation >= 0 else member.generation
            if generation == member.generation == newest:
                contradiction = SelfContradiction(
                    Error(code), group_id, member_id, generation, event.at - member.granted_at, 1
                )
        elif code == Error.UNKNOWN_MEMBER_ID and generation == member.generation and not member.must_rejoin:
            silence_ns = event.at - member.accepted_at
            if silence_ns < member.session:
                contradiction = SelfContradiction(Error(code), group_id, member_id, generation, silence_ns, 1)
        if contradiction is None:
            return
        if contradiction.members is None:
            streak = server, group_id, client_key(connection), api, code
            times = self._streaks[streak] = self._streaks.get(streak, 0) + 1
            contradiction = replace(contradiction, times=times)
        group.contradicted_at = event.at
        self.contradiction = contradiction

    def _check_rebalance(self, group: _Group, group_id: str, member_id: str, at: int) -> SelfContradiction | None:
        """Return the contradiction in a reported rebalance; None if a member may have asked for the rebalance."""
        if group.is_rebalance_expected or not group.members or not group.members <= group.joined:
            return None
        group.is_baseless = True
        times, elapsed_ns = group.repeats + 1, at - group.began_at
        error = Error(Error.REBALANCE_IN_PROGRESS)
        return SelfContradiction(error, group_id, member_id, group.generation, elapsed_ns, times, len(group.members))


def _error_code(event: ResponseReceived) -> int:
    """Return the error code of a response, or of its first partition with an error; 0 if there is none."""
    assert event.message is not None
    if (code := event.message.body.get("error_code", 0)) or event.message.api != "OffsetCommit":
        return int(code)
    return next((error.code for error in summary.errors(event.message)), 0)
