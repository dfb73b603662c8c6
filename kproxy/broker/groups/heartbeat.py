"""The heartbeat of a consumer group member, and checks of its epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.groups.consumer_member import ConsumerMember


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat. A field is None if it has not changed since the previous heartbeat.

    `visible` returns whether the principal may see a topic.
    """

    member_id: str
    epoch: int
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    visible: Callable[[str], bool] = lambda topic: True

    @property
    def is_full(self) -> bool:
        """Whether it contains every field."""
        subscribes = self.topics is not None or self.regex is not None
        return subscribes and self.rebalance_timeout_ms is not None and self.owned is not None


def check_epoch(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> None:
    """Raise `ApiError` with FENCED_MEMBER_EPOCH unless the epoch is current, or the member missed only one response."""
    if heartbeat.epoch == member.epoch:
        return
    missed_one_response = heartbeat.owned is not None and all(
        partition in member.assigned for partition in heartbeat.owned
    )
    if heartbeat.epoch > member.epoch or heartbeat.epoch != member.previous_epoch or not missed_one_response:
        kind = "greater" if heartbeat.epoch > member.epoch else "smaller"
        message = (
            f"The consumer group member has a {kind} member epoch ({heartbeat.epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
        )
        raise ApiError(Error.FENCED_MEMBER_EPOCH, message)


def check_assigned_since(member: ConsumerMember, epoch: int, topic_id: str, partition: int) -> None:
    """Raise `ApiError` unless the member has owned the partition since that epoch or earlier."""
    topic_id_partition = topic_id, partition
    since = member.assigned.get(topic_id_partition, member.revoking.get(topic_id_partition))
    if since is None or epoch < since:
        raise ApiError(stale_epoch_error(member))


def stale_epoch_error(member: ConsumerMember) -> Error:
    """Return the error that the member's protocol uses for an outdated epoch."""
    return Error.STALE_MEMBER_EPOCH if member.classic is None else Error.ILLEGAL_GENERATION
