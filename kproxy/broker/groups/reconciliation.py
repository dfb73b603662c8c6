"""Reconciliation: the members of a consumer group, their target assignment, and their current one (KIP-848).

Source: ConsumerGroup and GroupMetadataManager in Kafka 4.3.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import ASSIGNORS, Subscriber, TopicIdPartition
from kproxy.broker.groups.consumer_member import ConsumerMember, MemberState
from kproxy.broker.groups.group import Group, GroupContext, Timers
from kproxy.broker.groups.interests import SubscribedTopics
from kproxy.broker.groups.subscriptions import CONSUMER


class Reconciliation(Group):
    """The members of a consumer group.

    A change of members, subscriptions or topics increments the group epoch; the next heartbeat computes the target
    assignment of that epoch, and each member then moves towards its target at its own pace.
    """

    type = CONSUMER

    def __init__(self, group_id: str, context: GroupContext) -> None:
        super().__init__(group_id, context)
        self.protocol_type = CONSUMER
        self.epoch = self.assignment_epoch = 1
        self.members: dict[str, ConsumerMember] = {}
        self.target: dict[str, frozenset[TopicIdPartition]] = {}
        self._static: dict[str, str] = {}  # instance -> member
        self._partitions: dict[
            str, int
        ] = {}  # subscribed topic id -> its number of partitions at the start of the epoch
        self._subscriptions = SubscribedTopics(context.topics)
        self._timers = Timers(context.clock)

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        is_stable = all(member.has_epoch(self.assignment_epoch) for member in self.members.values())
        return "Stable" if is_stable else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def size(self) -> int:
        partition_count = sum(
            len(member.assigned) + len(self.target.get(member.id, ())) for member in self.members.values()
        )
        return 200 + 100 * partition_count + sum(member.size for member in self.members.values())

    @property
    def assignor(self) -> str:
        """The assignor that most members request."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor)
        return votes.most_common(1)[0][0] if votes else next(iter(ASSIGNORS))

    def close(self) -> None:
        self._timers.cancel_all()

    def to_journal(self) -> Mapping[str, Any]:
        return {
            "type": self.type,
            "epoch": self.epoch,
            "assignment_epoch": self.assignment_epoch,
            "members": [member.to_journal() for member in self.members.values()],
            "target": {member: sorted(partitions) for member, partitions in self.target.items()},
            "partitions": self._partitions,
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        target = {
            member: frozenset((topic_id, index) for topic_id, index in partitions)
            for member, partitions in stored["target"].items()
        }
        self.settle(stored["epoch"], [ConsumerMember.from_journal(member) for member in stored["members"]], target)
        self.assignment_epoch, self._partitions = stored["assignment_epoch"], dict(stored["partitions"])

    def settle(
        self, epoch: int, members: Collection[ConsumerMember], target: Mapping[str, frozenset[TopicIdPartition]]
    ) -> None:
        """Set the epoch, the members and their target assignment."""
        self.epoch = self.assignment_epoch = epoch
        self.target = dict(target)
        self.members = {member.id: member for member in members}
        self._static = {member.instance_id: member.id for member in members if member.instance_id is not None}
        self._partitions = self._subscriptions.partitions(self.members.values())
        for member in members:
            self._restart_session_timer(member)
            self._await_revocation(member)

    def _advance_member(
        self,
        member: ConsumerMember,
        owned: Collection[TopicIdPartition] | None,
        visible: Callable[[str], bool] | None,
        *,
        subscription_changed: bool,
    ) -> bool:
        """Advance a member as far as possible after its heartbeat; return whether its assignment has changed.

        Args:
            member: The member.
            owned: The partitions that the member reports owning; None if it did not report them.
            visible: Returns whether the member may see a topic; if it is None, patterns are not matched.
            subscription_changed: Whether the member is new, or its subscription has changed.
        """
        old_state = (member.epoch, member.state, dict(member.assigned))
        if visible is not None:
            self._subscriptions.refresh({member.regex for member in self.members.values() if member.regex}, visible)
        partitions = self._subscriptions.partitions(self.members.values())
        if subscription_changed or partitions != self._partitions:
            self.epoch += 1
            self._partitions = partitions
        if self.assignment_epoch < self.epoch:
            self._assign()
        if subscription_changed or not member.has_epoch(self.assignment_epoch):
            other_members = [candidate for candidate in self.members.values() if candidate is not member]
            taken_partitions = {
                partition for member in other_members for partition in (*member.assigned, *member.revoking)
            }
            topic_ids = {topic.id for topic in self._subscriptions.topics(member)}
            target = self.target.get(member.id, ())
            member.reconcile(
                self.assignment_epoch,
                target,
                topic_ids,
                taken_partitions,
                owned,
                subscription_changed=subscription_changed,
            )
        if (member.epoch, member.state, member.assigned) != old_state or subscription_changed:
            self._await_revocation(member)
            self._context.store(self)
        self._restart_session_timer(member)
        return member.assigned != old_state[2]

    def _check_capacity(self, member_id: str) -> None:
        if len(self.members) >= self._context.settings.max_consumer_size and member_id not in self.members:
            message = f"The consumer group has reached its maximum capacity of {len(self.members)} members."
            raise ApiError(Error.GROUP_MAX_SIZE_REACHED, message)

    def _find_member(self, member_id: str, instance_id: str | None, *, allow_empty_id: bool = False) -> ConsumerMember:
        if instance_id is not None:
            if (current_id := self._static.get(instance_id)) is None:
                raise ApiError(Error.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
            if current_id != member_id and (member_id or not allow_empty_id):
                message = f"Static member {member_id} with instance id {instance_id} was fenced by member {current_id}."
                raise ApiError(Error.FENCED_INSTANCE_ID, message)
            member_id = current_id
        if (member := self.members.get(member_id)) is None:
            raise ApiError(Error.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.id}.")
        return member

    def _replace(self, replaced: ConsumerMember, member_id: str) -> ConsumerMember:
        """Replace a static member that returns with a new id; it keeps its partitions."""
        target = self.target.get(replaced.id, frozenset())
        self._drop_member(replaced.id)
        member = self.members[member_id] = replaced.with_id(member_id)
        self.target[member_id] = target
        return member

    def _assign(self) -> None:
        subscribers = [
            Subscriber(
                member.id,
                member.instance_id,
                frozenset(topic.id for topic in self._subscriptions.topics(member)),
                self.target.get(member.id, frozenset()),
            )
            for member in self.members.values()
        ]
        self.target = ASSIGNORS[self.assignor](subscribers, self._partitions)
        self.assignment_epoch = self.epoch

    def _remove(self, member_ids: Collection[str]) -> None:
        """Remove members, and begin a new group epoch."""
        if member_ids:
            for member_id in member_ids:
                self._drop_member(member_id)
            self.epoch += 1
            self._partitions = self._subscriptions.partitions(self.members.values())
            self._context.store(self)

    def _drop_member(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self.target.pop(member_id, None)
        if member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        for name in (f"session-{member_id}", f"revocation-{member_id}", f"join-{member_id}", f"sync-{member_id}"):
            self._timers.cancel(name)

    def _restart_session_timer(self, member: ConsumerMember) -> None:
        """Remove the member unless it sends a heartbeat in time."""
        timeout_ms = member.session_timeout_ms or self._context.settings.session_timeout_ms(self.id)
        self._timers.set(f"session-{member.id}", timeout_ms, functools.partial(self._remove, {member.id}))

    def _await_revocation(self, member: ConsumerMember) -> None:
        """Remove the member unless it revokes its partitions in time."""
        name = f"revocation-{member.id}"
        if member.state is MemberState.UNREVOKED and member.classic is None:
            self._timers.set(name, member.rebalance_timeout_ms, functools.partial(self._remove, {member.id}))
        else:
            self._timers.cancel(name)
