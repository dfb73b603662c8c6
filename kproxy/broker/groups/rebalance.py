"""The rebalance of a classic group, from one generation to the next.

Source: ClassicGroup and GroupMetadataManager in Kafka 4.3.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, Final

from kproxy.broker.errors import Error
from kproxy.broker.groups.classic_member import ClassicMember
from kproxy.broker.groups.group import Group, GroupContext, Timers
from kproxy.broker.groups.subscriptions import CONSUMER, read_subscription

#: The response to a member that has been removed.
UNKNOWN_MEMBER_RESPONSE: Final[Mapping[str, Any]] = {"error_code": Error.UNKNOWN_MEMBER_ID, "member_id": ""}

#: Names of timers. The other timers are named by member ids, which contain a hyphen.
JOIN: Final = "join"
SYNC: Final = "sync"


class RebalanceState(StrEnum):
    """The state of a group's rebalance."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class ClassicRebalance(Group):
    """The members of a classic group, and their rebalance.

    A rebalance starts when a member joins or leaves: all members must rejoin. When all have done so, or the longest
    rebalance timeout has passed, a new generation begins; when its leader has synced, the group is stable.
    """

    type = "classic"

    def __init__(self, group_id: str, context: GroupContext) -> None:
        super().__init__(group_id, context)
        self.generation = 0
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self._state = RebalanceState.EMPTY
        self._previous_state = RebalanceState.EMPTY
        self._state_since = context.clock.now()
        self._static: dict[str, str] = {}  # instance -> member
        self._pending: set[str] = set()  # members that have an id but have not joined yet
        self._unsynced: set[str] = set()  # members that have not sent a SyncGroup yet
        self._joined_during_delay = False  # a member joined during the initial delay
        self._topics: frozenset[str] | None = None
        self._timers = Timers(context.clock)

    @property
    def state(self) -> str:
        return self._state.value

    @property
    def is_empty(self) -> bool:
        return self._state is RebalanceState.EMPTY

    @property
    def size(self) -> int:
        return 200 * (1 + len(self._pending)) + sum(member.size for member in self.members.values())

    def close(self) -> None:
        self._timers.cancel_all()

    def settle(self, members: Collection[ClassicMember], protocol: str | None, leader: str | None) -> None:
        """Become stable with these members, or empty if there are none; if `protocol` is None, the members elect it."""
        self.members = {member.id: member for member in members}
        self._static = {member.instance_id: member.id for member in members if member.instance_id is not None}
        self.protocol, self.leader = protocol or (self._elected_protocol() if members else None), leader
        self._topics = self._subscribed_topics()
        self._set_state(RebalanceState.STABLE if members else RebalanceState.EMPTY)
        for member in members:
            self._restart_session_timer(member)

    def prepare(self) -> None:
        """Start a rebalance."""
        if self._state is RebalanceState.COMPLETING:
            for member in self.members.values():
                member.assignment = b""
            self._respond_to_syncs(Error.REBALANCE_IN_PROGRESS)
        self._unsynced.clear()
        self._timers.cancel(SYNC)
        was_empty = self.is_empty
        self._set_state(RebalanceState.PREPARING)
        if was_empty:
            delay_ms = self._context.settings.initial_delay_ms
            self._wait_for_more_members(delay_ms, max(self._rebalance_timeout_ms() - delay_ms, 0))
        elif not self._all_joined():
            self._timers.set(JOIN, self._rebalance_timeout_ms(), self._complete)
        else:
            self._complete()

    def _prepare_or_complete(self) -> None:
        if self._state is not RebalanceState.PREPARING:
            self.prepare()
        else:
            self._complete_if_all_joined()

    def _complete_if_all_joined(self) -> None:
        if (
            self._state is RebalanceState.PREPARING
            and self._previous_state is not RebalanceState.EMPTY
            and self._all_joined()
        ):
            self._complete()

    def _wait_for_more_members(self, delay_ms: int, remaining_ms: int) -> None:
        """Extend the initial delay of an empty group as long as members keep joining."""

        def on_timeout() -> None:
            if self._joined_during_delay and remaining_ms:
                self._joined_during_delay = False
                next_delay_ms = min(self._context.settings.initial_delay_ms, remaining_ms)
                self._wait_for_more_members(next_delay_ms, max(remaining_ms - delay_ms, 0))
            else:
                self._complete()

        self._timers.set(JOIN, delay_ms, on_timeout)

    def _complete(self) -> None:
        """Complete the join phase: the members that have joined form the next generation."""
        self._timers.cancel(JOIN)
        for late_member in [
            member for member in self.members.values() if member.join is None and member.instance_id is None
        ]:
            self._remove_member(late_member.id)
        if self.members and not self._elect_leader():
            self._timers.set(JOIN, self._rebalance_timeout_ms(), self._complete)
            return
        self.generation += 1
        self._unsynced = set(self.members)
        self.protocol = self._elected_protocol() if self.members else None
        self._topics = self._subscribed_topics()
        self._set_state(RebalanceState.COMPLETING if self.members else RebalanceState.EMPTY)
        if not self.members:
            self._context.store(self)
            return
        for member in self.members.values():
            member.respond_to_join(self._join_response(member))
            self._restart_session_timer(member)
            member.is_new = False
        self._timers.set(SYNC, self._rebalance_timeout_ms(), self._on_sync_timeout)

    def _on_sync_timeout(self) -> None:
        for member_id in list(self._unsynced):
            self._remove_member(member_id)
        self.prepare()

    def _respond_to_syncs(self, error: Error = Error.NONE) -> None:
        for member in self.members.values():
            body = (
                {"error_code": error, "protocol_type": None, "protocol_name": None}
                if error
                else self._sync_response(member)
            )
            if member.respond_to_sync(body):
                self._restart_session_timer(member)

    def _join_response(self, member: ClassicMember) -> dict[str, Any]:
        is_leader = member.id == self.leader
        return {
            "generation_id": self.generation,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "leader": self.leader,
            "member_id": member.id,
            "members": self._join_response_members() if is_leader else [],
        }

    def _join_response_members(self) -> list[Mapping[str, Any]]:
        return [
            {
                "member_id": member.id,
                "group_instance_id": member.instance_id,
                "metadata": member.protocols[self.protocol or ""],
            }
            for member in self.members.values()
        ]

    def _sync_response(self, member: ClassicMember) -> Mapping[str, Any]:
        return {
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "assignment": member.assignment,
        }

    def _set_state(self, state: RebalanceState) -> None:
        self._previous_state, self._state = self._state, state
        self._state_since = self._context.clock.now()

    def _restart_session_timer(self, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Remove the member unless it shows activity within the timeout, by default its session timeout."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self._timers.set(member.id, timeout_ms, functools.partial(self._expire, member.id))

    def _expire(self, member_id: str) -> None:
        if (member := self.members.get(member_id)) is not None:
            if member.is_waiting and not member.is_new:
                return  # the broker itself was late
            member.respond_to_join(UNKNOWN_MEMBER_RESPONSE)
        self._remove_member(member_id)
        if self._state is RebalanceState.PREPARING:
            if self._all_joined():
                self._complete()
        elif member is not None:
            self.prepare()

    def _remove_member(self, member_id: str) -> None:
        """Remove a member, including one that has an id but has not joined."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self._pending.discard(member_id)
        self._unsynced.discard(member_id)
        self._timers.cancel(member_id)

    def _elect_leader(self) -> bool:
        """Ensure that the leader is a member that has joined; return False if no member has joined."""
        if self.members[self.leader or ""].join is None:
            joined_id = next((member.id for member in self.members.values() if member.join is not None), None)
            self.leader = joined_id or self.leader
            return joined_id is not None
        return True

    def _elected_protocol(self) -> str:
        candidates = set.intersection(*(set(member.protocols) for member in self.members.values()))
        return Counter(member.vote(candidates) for member in self.members.values()).most_common(1)[0][0]

    def _subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that members subscribe to; None if they are unknown."""
        if self.protocol_type != CONSUMER:
            return None
        subscriptions = [read_subscription(member.protocols[self.protocol or ""]) for member in self.members.values()]
        topic_lists = [subscription["topics"] for subscription in subscriptions if subscription is not None]
        return frozenset().union(*topic_lists) if len(topic_lists) == len(subscriptions) else None

    def _all_joined(self) -> bool:
        return not self._pending and all(member.join is not None for member in self.members.values())

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)
