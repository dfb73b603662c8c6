"""ConsumerGroup: handles the requests of a consumer group's members (KIP-848).

Source: ConsumerGroup and GroupMetadataManager in Kafka 4.3.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kproxy.broker.cluster import new_uuid
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.classic_compat import ClassicProtocolSupport
from kproxy.broker.groups.consumer_member import LEAVING, LEAVING_TEMPORARILY, ConsumerMember
from kproxy.broker.groups.group import PartitionCheck, no_check
from kproxy.broker.groups.heartbeat import ConsumerHeartbeat, check_assigned_since, check_epoch, stale_epoch_error
from kproxy.broker.groups.interests import compile_matcher
from kproxy.broker.groups.partition_rows import group_by_topic, group_by_topic_name

if TYPE_CHECKING:
    from kproxy.broker.groups.offsets import CommittedOffset


class ConsumerGroup(ClassicProtocolSupport):
    """A group whose partitions are assigned by the broker."""

    def consumer_heartbeat(self, heartbeat: ConsumerHeartbeat) -> Mapping[str, Any]:
        """Process a heartbeat, with which a member joins, stays alive or leaves; return the response.

        Raises:
            ApiError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
                UNRELEASED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION.
        """
        if heartbeat.epoch in (LEAVING, LEAVING_TEMPORARILY):
            return self._leave_group(heartbeat)
        if heartbeat.regex:
            compile_matcher(heartbeat.regex)
        member = self._find_or_create_member(heartbeat)
        subscription_changed = self._update_member(member, heartbeat)
        assignment_changed = self._advance_member(
            member, heartbeat.owned, heartbeat.visible, subscription_changed=subscription_changed
        )
        response: dict[str, Any] = {
            "member_id": member.id,
            "member_epoch": member.epoch,
            "heartbeat_interval_ms": self._context.settings.heartbeat_interval_ms(self.id),
        }
        if heartbeat.epoch == 0 or heartbeat.is_full or assignment_changed:
            response["assignment"] = {"topic_partitions": group_by_topic(member.assigned)}
        return response

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, version: int
    ) -> PartitionCheck:
        if epoch < 0 and self.is_empty:
            return no_check
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return no_check
        member = self._find_member(member_id, None)
        if not transactional and version < 9 and member.classic is None:
            message = "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            raise ApiError(Error.UNSUPPORTED_VERSION, message)
        if epoch > member.epoch:
            raise ApiError(stale_epoch_error(member))
        return no_check if epoch == member.epoch else functools.partial(check_assigned_since, member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self._find_member(member_id or "", None)
        if member.epoch != epoch:
            raise ApiError(stale_epoch_error(member))

    def check_offset_deletion(self) -> None:
        """Allow deletion; `is_subscribed` excludes the offsets of subscribed topics."""

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in self._subscriptions.names(member) for member in self.members.values())

    def unused_since(self, committed: CommittedOffset) -> int | None:
        return committed.at

    def describe(self) -> Mapping[str, Any]:
        """Return the group's entry in a ConsumerGroupDescribe response."""
        return {
            "group_id": self.id,
            "group_state": self.state,
            "group_epoch": self.epoch,
            "assignment_epoch": self.assignment_epoch,
            "assignor_name": self.assignor,
            "members": [
                {
                    "member_id": member.id,
                    "instance_id": member.instance_id,
                    "rack_id": member.rack_id,
                    "member_epoch": member.epoch,
                    "client_id": member.client_id,
                    "client_host": member.client_host,
                    "subscribed_topic_names": sorted(member.topics),
                    "subscribed_topic_regex": member.regex,
                    "assignment": {
                        "topic_partitions": group_by_topic_name(
                            {*member.assigned, *member.revoking}, self._context.topics
                        )
                    },
                    "target_assignment": {
                        "topic_partitions": group_by_topic_name(self.target.get(member.id, ()), self._context.topics)
                    },
                    "member_type": 1 if member.classic is None else 0,
                }
                for member in self.members.values()
            ],
        }

    def _find_or_create_member(self, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
        """Return the member that sent a heartbeat, or a new member if it joins."""
        self._check_capacity(heartbeat.member_id)
        if heartbeat.epoch != 0:
            member = self._find_member(heartbeat.member_id, heartbeat.instance_id)
            check_epoch(member, heartbeat)
            return member
        member_id = heartbeat.member_id or new_uuid()
        current_id = self._static.get(heartbeat.instance_id) if heartbeat.instance_id is not None else None
        if current_id is None:
            return self.members.setdefault(member_id, ConsumerMember(member_id))
        current_member = self.members[current_id]
        if current_member.epoch != LEAVING_TEMPORARILY and current_member.classic is None:
            message = (
                f"Static member {member_id} with instance id {current_member.instance_id} cannot join the group "
                f"because the instance id is owned by {current_member.id} member."
            )
            raise ApiError(Error.UNRELEASED_INSTANCE_ID, message)
        return self._replace(current_member, member_id)

    def _update_member(self, member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> bool:
        """Update the member from its heartbeat; return whether its subscription has changed."""
        old_subscription = member.topics, member.regex
        if heartbeat.instance_id is not None:
            member.instance_id = heartbeat.instance_id
            self._static[heartbeat.instance_id] = member.id
        for name in ("rack_id", "rebalance_timeout_ms", "topics", "regex", "assignor"):
            if (value := getattr(heartbeat, name)) is not None:
                setattr(member, name, value)
        member.classic = None
        member.client_id, member.client_host = heartbeat.client_id, heartbeat.client_host
        return old_subscription != (member.topics, member.regex)

    def _leave_group(self, heartbeat: ConsumerHeartbeat) -> Mapping[str, Any]:
        member = self._find_member(heartbeat.member_id, heartbeat.instance_id)
        if heartbeat.epoch == LEAVING_TEMPORARILY:
            member.leave_temporarily()
            self._context.store(self)
        else:
            self._remove({member.id})
        return {"member_id": member.id, "member_epoch": heartbeat.epoch}
