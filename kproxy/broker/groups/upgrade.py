"""Upgrade: a classic group with members becomes a consumer group when the first member with the new protocol joins.

Source: GroupMetadataManager.validateOnlineUpgrade and ConsumerGroup.fromClassicGroup, in Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups.assignors import Part
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.classic_member import ClassicMember, Joining
from kproxy.broker.groups.consumer import ConsumerGroup
from kproxy.broker.groups.consumer_member import ConsumerMember
from kproxy.broker.groups.group import GroupContext
from kproxy.broker.groups.subscriptions import CONSUMER, read_assignment, read_subscription
from kproxy.broker.topics import Topics


def upgrade(group: ClassicGroup, new_group: ConsumerGroup, context: GroupContext) -> None:
    """Convert a classic group with its members to a new consumer group.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND if it cannot be converted; the message has the reason.
    """
    if not context.settings.migrates("upgrade"):
        raise _refused(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER or group.protocol is None:
        raise _refused(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > context.settings.consumer_size:
        raise _refused(group, "the group size exceeds the consumer group maximum size.")
    members = [_upgraded(group, member, group.protocol, context.topics) for member in group.members.values()]
    new_group.settle(group.generation, members, {member.id: frozenset(member.assigned) for member in members})


def _upgraded(group: ClassicGroup, member: ClassicMember, protocol: str, topics: Topics) -> ConsumerMember:
    subscription = read_subscription(member.protocols.get(protocol, b""))
    assignment = read_assignment(member.assignment) if member.assignment else _NOTHING
    if subscription is None or assignment is None:
        raise _refused(group, "the embedded consumer protocol is malformed.")
    if assignment["user_data"]:
        raise _refused(
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
        assigned=dict.fromkeys(_parts(assignment, topics), group.generation),
        classic=Joining(
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


_NOTHING: Mapping[str, Any] = {"assigned_partitions": [], "user_data": None}


def _parts(assignment: Mapping[str, Any], topics: Topics) -> list[Part]:
    topics_found = ((topics.named(topic["topic"]), topic["partitions"]) for topic in assignment["assigned_partitions"])
    return [(topic.id, index) for topic, indexes in topics_found if topic is not None for index in indexes]


def _refused(group: ClassicGroup, reason: str) -> Refused:
    message = f"Cannot upgrade classic group {group.id} to consumer group because {reason}"
    return Refused(Error.GROUP_ID_NOT_FOUND, message)
