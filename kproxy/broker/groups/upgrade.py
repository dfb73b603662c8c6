"""Upgrade: a classic group with members becomes a consumer group when the first member with the new protocol joins.

Source: GroupMetadataManager.validateOnlineUpgrade and ConsumerGroup.fromClassicGroup, in Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.classic_member import ClassicMember, JoinRequest
from kproxy.broker.groups.consumer import ConsumerGroup
from kproxy.broker.groups.consumer_member import ConsumerMember
from kproxy.broker.groups.group import GroupContext
from kproxy.broker.groups.subscriptions import CONSUMER, read_assignment, read_subscription
from kproxy.broker.topics import Topics


def upgrade(group: ClassicGroup, new_group: ConsumerGroup, context: GroupContext) -> None:
    """Convert a classic group and its members into a new consumer group.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND if it cannot be converted; the message says why.
    """
    if not context.settings.allows_migration("upgrade"):
        raise _upgrade_error(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER or group.protocol is None:
        raise _upgrade_error(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > context.settings.max_consumer_size:
        raise _upgrade_error(group, "the group size exceeds the consumer group maximum size.")
    members = [_convert_member(group, member, group.protocol, context.topics) for member in group.members.values()]
    new_group.settle(group.generation, members, {member.id: frozenset(member.assigned) for member in members})


def _convert_member(group: ClassicGroup, member: ClassicMember, protocol: str, topics: Topics) -> ConsumerMember:
    subscription = read_subscription(member.protocols.get(protocol, b""))
    assignment = read_assignment(member.assignment) if member.assignment else _EMPTY_ASSIGNMENT
    if subscription is None or assignment is None:
        raise _upgrade_error(group, "the embedded consumer protocol is malformed.")
    if assignment["user_data"]:
        raise _upgrade_error(
            group,
            "an unsupported custom assignor is in use. "
            "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.",
        )
    return ConsumerMember(
        member.id,
        member.instance_id,
        subscription.get("rack_id") or None,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        frozenset(subscription["topics"]),
        epoch=group.generation,
        previous_epoch=group.generation,
        assigned=dict.fromkeys(_assigned_partitions(assignment, topics), group.generation),
        classic=JoinRequest(
            member.id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            CONSUMER,
            member.protocols,
        ),
    )


_EMPTY_ASSIGNMENT: Mapping[str, Any] = {"assigned_partitions": [], "user_data": None}


def _assigned_partitions(assignment: Mapping[str, Any], topics: Topics) -> list[TopicIdPartition]:
    topics_found = (
        (topics.by_name(topic["topic"]), topic["partitions"]) for topic in assignment["assigned_partitions"]
    )
    return [(topic.id, index) for topic, indexes in topics_found if topic is not None for index in indexes]


def _upgrade_error(group: ClassicGroup, reason: str) -> ApiError:
    message = f"Cannot upgrade classic group {group.id} to consumer group because {reason}"
    return ApiError(Error.GROUP_ID_NOT_FOUND, message)
