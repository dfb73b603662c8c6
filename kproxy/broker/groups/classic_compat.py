"""Members of a consumer group that still use the classic protocol, during a rolling upgrade of clients.

Source: GroupMetadataManager, for JoinGroup, SyncGroup, Heartbeat and LeaveGroup to a ConsumerGroup, in Kafka 4.3
(online migration, KIP-848).
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kproxy.broker.cluster import new_uuid
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.classic_member import ClassicMember, JoinRequest
from kproxy.broker.groups.consumer_member import ConsumerMember, MemberState
from kproxy.broker.groups.group import Respond
from kproxy.broker.groups.reconciliation import Reconciliation
from kproxy.broker.groups.subscriptions import CONSUMER, read_subscription, version_of, write_assignment


class ClassicProtocolSupport(Reconciliation):
    """Handles members with the classic protocol; each has its own generation, which is its member epoch."""

    def join(self, request: JoinRequest, respond: Respond) -> None:
        """Let a member join or rejoin; respond immediately.

        Raises:
            ApiError: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        member_id = request.member_id or new_uuid()
        self._check_capacity(member_id)
        if not self._supports(request):
            raise ApiError(Error.INCONSISTENT_GROUP_PROTOCOL)
        if not request.member_id and request.instance_id is None and request.learns_id:
            respond({"error_code": Error.MEMBER_ID_REQUIRED, "member_id": member_id})
            return
        protocol, data = next(iter(request.protocols.items()))
        if (subscription := read_subscription(data)) is None:
            raise ApiError(Error.UNKNOWN_SERVER_ERROR, "the subscription cannot be read")
        member = self._find_or_add_member(request, member_id)
        has_changed = member.topics != frozenset(subscription["topics"]) or member.regex != ""
        member.classic = request
        member.topics, member.regex = frozenset(subscription["topics"]), ""
        member.rack_id = subscription.get("rack_id") or member.rack_id
        member.client_id, member.client_host = request.client_id, request.client_host
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        owned = self._owned_partitions(subscription.get("owned_partitions", ()))
        self._advance_member(member, owned, None, subscription_changed=has_changed)
        self._timers.cancel(f"join-{member.id}")
        self._start_step_timer("sync", member)
        respond(
            {
                "member_id": member.id,
                "generation_id": member.epoch,
                "protocol_type": CONSUMER,
                "protocol_name": protocol,
            }
        )
        self._downgrade_if_possible()

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
        respond: Respond,
    ) -> None:
        """Respond immediately with a member's assignment. Unlike in `ClassicGroup`, members send no assignments."""
        member, request = self._find_current_member(member_id, instance_id, generation)
        protocol_name, data = next(iter(request.protocols.items()))
        protocol_pairs = zip(protocol, (CONSUMER, protocol_name), strict=True)
        if any(requested is not None and requested != current for requested, current in protocol_pairs):
            raise ApiError(Error.INCONSISTENT_GROUP_PROTOCOL)
        if self.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED:
            self._start_step_timer("join", member)
            raise ApiError(Error.REBALANCE_IN_PROGRESS)
        self._timers.cancel(f"sync-{member.id}")
        self._restart_session_timer(member)
        assignment = write_assignment(self.partitions_by_topic(member.assigned), version_of(data))
        respond({"protocol_type": CONSUMER, "protocol_name": protocol_name, "assignment": assignment})

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a member alive.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
        """
        member, _ = self._find_current_member(member_id, instance_id, generation)
        self._restart_session_timer(member)
        can_advance = member.state is MemberState.UNRELEASED and not self._must_wait(member)
        if member.epoch < self.assignment_epoch or member.state is MemberState.UNREVOKED or can_advance:
            if not self._timers.has(f"join-{member.id}"):
                self._start_step_timer("join", member)
            raise ApiError(Error.REBALANCE_IN_PROGRESS)

    def leave(self, members: Iterable[tuple[str, str | None]]) -> list[Error]:
        """Remove members, identified by member id and instance id, e.g. for an admin client; return their results."""
        errors = []
        removed_ids = set()
        for member_id, instance_id in members:
            try:
                removed_ids.add(self._find_member(member_id, instance_id, allow_empty_id=True).id)
                errors.append(Error.NONE)
            except ApiError as api_error:
                errors.append(api_error.error)
        self._remove(removed_ids)
        return errors

    def partitions_by_topic(self, partitions: Iterable[TopicIdPartition]) -> dict[str, list[int]]:
        """Group the partitions by topic name, omitting those of deleted topics."""
        topics: dict[str, list[int]] = {}
        for topic_id, index in sorted(partitions):
            if (topic := self._context.topics.by_id(topic_id)) is not None:
                topics.setdefault(topic.name, []).append(index)
        return topics

    def _supports(self, request: JoinRequest) -> bool:
        classic_members = [member.classic for member in self.members.values() if member.classic is not None]
        return request.protocol_type == CONSUMER and any(
            all(name in member.protocols for member in classic_members) for name in request.protocols
        )

    def _find_or_add_member(self, request: JoinRequest, member_id: str) -> ConsumerMember:
        if request.instance_id is None:
            return self.members.setdefault(member_id, ConsumerMember(member_id))
        if request.member_id:
            return self._find_member(member_id, request.instance_id)
        if (current_id := self._static.get(request.instance_id)) is not None:
            member = self._replace(self.members[current_id], member_id)
        else:
            member = self.members[member_id] = ConsumerMember(member_id, request.instance_id)
        self._static[request.instance_id] = member_id
        return member

    def _find_current_member(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[ConsumerMember, JoinRequest]:
        member = self._find_member(member_id, instance_id)
        if member.classic is None:
            raise ApiError(Error.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        if generation != member.epoch:
            raise ApiError(Error.ILLEGAL_GENERATION)
        return member, member.classic

    def _start_step_timer(self, step: str, member: ConsumerMember) -> None:
        """Remove the member unless it takes a step (``join`` or ``sync``) within its rebalance timeout."""
        remove = functools.partial(self._remove, {member.id})
        self._timers.set(f"{step}-{member.id}", member.rebalance_timeout_ms, remove)

    def _must_wait(self, member: ConsumerMember) -> bool:
        """Whether other members still own partitions of the member's target."""
        other_members = (candidate for candidate in self.members.values() if candidate is not member)
        taken_partitions = {partition for member in other_members for partition in (*member.assigned, *member.revoking)}
        return any(partition in taken_partitions for partition in self.target[member.id] - member.assigned.keys())

    def _owned_partitions(self, owned: Iterable[Mapping[str, Any]]) -> frozenset[TopicIdPartition]:
        topics = ((self._context.topics.by_name(topic["topic"]), topic["partitions"]) for topic in owned)
        return frozenset((topic.id, index) for topic, indexes in topics if topic is not None for index in indexes)

    def _remove(self, member_ids: Collection[str]) -> None:
        super()._remove(member_ids)
        if member_ids:
            self._downgrade_if_possible()

    def _downgrade_if_possible(self) -> None:
        """Become a classic group if all members use the classic protocol, and size and migration policy allow it."""
        settings = self._context.settings
        is_allowed = len(self.members) <= settings.max_classic_size and settings.allows_migration("downgrade")
        if self.members and is_allowed and all(member.classic is not None for member in self.members.values()):
            classic_group = ClassicGroup(self.id, self._context)
            classic_group.protocol_type, classic_group.generation = CONSUMER, self.epoch
            members = [self._as_classic(member) for member in self.members.values()]
            classic_group.settle(members, None, members[0].id)
            self._context.replace(classic_group)
            if not all(member.has_epoch(self.epoch) for member in self.members.values()):
                classic_group.prepare()

    def _as_classic(self, member: ConsumerMember) -> ClassicMember:
        assert member.classic is not None
        request = member.classic
        version = version_of(next(iter(request.protocols.values())))
        classic_member = request.create_member(member.id, None)
        classic_member.assignment = write_assignment(self.partitions_by_topic(self.target.get(member.id, ())), version)
        return classic_member
