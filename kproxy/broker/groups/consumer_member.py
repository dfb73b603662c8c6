"""ConsumerMember: a member of a consumer group, and its transition to its target assignment (KIP-848)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.groups.classic_member import JoinRequest

#: The member epochs for leaving: permanently, or temporarily as a static member.
LEAVING: Final = -1
LEAVING_TEMPORARILY: Final = -2


class MemberState(StrEnum):
    """How far a member has progressed towards its target."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"  # has not confirmed that it has revoked its partitions
    UNRELEASED = "unreleased"  # waits for partitions that other members still own


@dataclass(slots=True)
class ConsumerMember:
    """A member of a consumer group.

    Attributes:
        epoch: The newest target epoch that it has reached.
        previous_epoch: The epoch before `epoch`, also valid because the response with `epoch` may have been lost.
        topics: The names of topics that it subscribes to.
        regex: A pattern of topic names that it subscribes to, or empty.
        assigned: The partitions assigned to it, with the epoch of each assignment.
        revoking: The partitions that it must revoke, but has not confirmed as revoked.
        classic: The contents of its last JoinGroup, if it uses the classic protocol.
    """

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: dict[TopicIdPartition, int] = field(default_factory=dict)
    revoking: dict[TopicIdPartition, int] = field(default_factory=dict)
    classic: JoinRequest | None = None

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        metadata = () if self.classic is None else self.classic.protocols.values()
        return 1000 + sum(50 + len(topic) for topic in self.topics) + len(self.regex) + sum(map(len, metadata))

    @property
    def session_timeout_ms(self) -> int | None:
        """The session timeout that it requested; None unless it uses the classic protocol."""
        return None if self.classic is None else self.classic.session_timeout_ms

    def has_epoch(self, epoch: int) -> bool:
        """Whether it has been assigned all partitions of an epoch's target."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def reconcile(
        self,
        epoch: int,
        target: Collection[TopicIdPartition],
        topic_ids: Collection[str],
        taken_partitions: Collection[TopicIdPartition],
        owned: Collection[TopicIdPartition] | None,
        *,
        subscription_changed: bool,
    ) -> None:
        """Advance towards a target as far as possible: first revoke, then assign.

        Args:
            epoch: The target's epoch.
            target: The target assignment.
            topic_ids: The ids of the member's topics.
            taken_partitions: Partitions that other members own or have not yet revoked.
            owned: The partitions that the member reports owning; None if it did not report them.
            subscription_changed: Whether the member's subscription has changed.

        Source: CurrentAssignmentBuilder.
        """
        is_revoking = self.state is MemberState.UNREVOKED and _may_own_any(owned, self.revoking)
        if not is_revoking and (self.state is not MemberState.STABLE or self.epoch != epoch):
            self._advance(
                epoch, {partition for partition in target if partition[0] in topic_ids}, taken_partitions, owned
            )
        elif subscription_changed:
            self._unsubscribe(topic_ids, owned)

    def with_id(self, member_id: str) -> Self:
        """Return a copy of this static member, which has returned with a new id."""
        return type(self)(
            member_id,
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.topics,
            self.regex,
            self.assignor,
            assigned=self.assigned,
            revoking=self.revoking,
            state=self.state,
            classic=self.classic,
        )

    def leave_temporarily(self) -> None:
        """Record that this static member has left temporarily; it keeps its partitions."""
        self.epoch = LEAVING_TEMPORARILY
        self.revoking = {}
        self.assigned = dict.fromkeys(self.assigned, 0)

    def to_journal(self) -> Mapping[str, Any]:
        """Return the state to store for a restart."""
        return {
            **{name: getattr(self, name) for name in _PLAIN_FIELDS},
            "topics": sorted(self.topics),
            "assigned": _to_list(self.assigned),
            "revoking": _to_list(self.revoking),
            "classic": None if self.classic is None else self.classic.to_journal(),
        }

    @classmethod
    def from_journal(cls, stored: Mapping[str, Any]) -> Self:
        """Return the stored member."""
        assigned, revoking = (
            {(topic_id, index): epoch for topic_id, index, epoch in stored[name]} for name in ("assigned", "revoking")
        )
        plain_fields = {name: stored[name] for name in _PLAIN_FIELDS}
        member = cls(**plain_fields, topics=frozenset(stored["topics"]), assigned=assigned, revoking=revoking)
        member.state = MemberState(stored["state"])
        member.classic = None if stored["classic"] is None else JoinRequest.from_journal(stored["classic"])
        return member

    def _advance(
        self,
        epoch: int,
        target: set[TopicIdPartition],
        taken_partitions: Collection[TopicIdPartition],
        owned: Collection[TopicIdPartition] | None,
    ) -> None:
        kept_partitions = {
            partition: assignment_epoch for partition, assignment_epoch in self.assigned.items() if partition in target
        }
        revoked = {
            partition: assignment_epoch
            for partition, assignment_epoch in self.assigned.items()
            if partition not in target
        }
        if revoked and _may_own_any(owned, revoked):
            self.assigned, self.revoking = kept_partitions, revoked
            self.state = MemberState.UNREVOKED
            self.previous_epoch = self.epoch
            return
        missing = target - kept_partitions.keys()
        available = {partition for partition in missing if partition not in taken_partitions}
        self.assigned = kept_partitions | dict.fromkeys(sorted(available), epoch)
        self.revoking = {}
        self.state = MemberState.STABLE if available == missing else MemberState.UNRELEASED
        self.previous_epoch, self.epoch = self.epoch, epoch

    def _unsubscribe(self, topic_ids: Collection[str], owned: Collection[TopicIdPartition] | None) -> None:
        revoked = {
            partition: assignment_epoch
            for partition, assignment_epoch in self.assigned.items()
            if partition[0] not in topic_ids
        }
        if not revoked:
            return
        for partition in revoked:
            del self.assigned[partition]
        revoking = self.revoking | revoked
        if _may_own_any(owned, revoking):
            self.revoking = revoking
            self.state = MemberState.UNREVOKED
        self.previous_epoch = self.epoch


_PLAIN_FIELDS: Final = (
    "id",
    "instance_id",
    "rack_id",
    "client_id",
    "client_host",
    "rebalance_timeout_ms",
    "regex",
    "assignor",
    "epoch",
    "previous_epoch",
    "state",
)


def _may_own_any(owned: Collection[TopicIdPartition] | None, partitions: Collection[TopicIdPartition]) -> bool:
    """Whether a member owns any of these partitions; true if it did not report what it owns."""
    return owned is None or any(partition in partitions for partition in owned)


def _to_list(partitions: Mapping[TopicIdPartition, int]) -> list[tuple[str, int, int]]:
    return [(topic, index, epoch) for (topic, index), epoch in partitions.items()]
