"""ShareGroup: a group whose members read the same partitions together (KIP-932).

Source: ShareGroup and GroupMetadataManager in Kafka 4.3.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import Subscriber, TopicIdPartition
from kproxy.broker.groups.group import Group, GroupContext, PartitionCheck, Timers
from kproxy.broker.groups.partition_rows import group_by_topic, group_by_topic_name
from kproxy.broker.shares.assignor import assign_simple
from kproxy.broker.shares.settings import ShareSettings
from kproxy.broker.shares.states import ShareStates

if TYPE_CHECKING:
    from kproxy.broker.groups.offsets import CommittedOffset
    from kproxy.broker.topics import Topic

SHARE: Final = "share"
#: The member epoch for leaving.
LEAVING: Final = -1


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """A ShareGroupHeartbeat. A field is None if it has not changed since the previous heartbeat."""

    member_id: str
    epoch: int
    client_id: str
    client_host: str
    rack_id: str | None = None
    topics: frozenset[str] | None = None


@dataclass(slots=True)
class ShareMember:
    """A member of a share group.

    Attributes:
        epoch: The newest target epoch that it has reached.
        previous_epoch: The epoch before `epoch`, also valid because the response with `epoch` may have been lost.
        topics: The names of topics that it subscribes to.
        assigned: The partitions assigned to it.
    """

    id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    epoch: int = 0
    previous_epoch: int = 0
    topics: frozenset[str] = frozenset()
    assigned: frozenset[TopicIdPartition] = frozenset()


class ShareGroup(Group):
    """The members of a group, and their assignment. The group's progress is in `ShareStates`.

    A change of members, subscriptions or topics increments the group epoch; the next heartbeat computes the new
    assignment, and each member gets it with its next heartbeat.
    """

    type = SHARE
    is_removable = False

    def __init__(self, group_id: str, context: GroupContext) -> None:
        super().__init__(group_id, context)
        self.protocol_type = SHARE
        self.epoch = 1  # Kafka's first epoch
        self.assignment_epoch = 1
        self.members: dict[str, ShareMember] = {}
        self._target: dict[str, frozenset[TopicIdPartition]] = {}
        self._partitions: dict[
            str, int
        ] = {}  # subscribed topic id -> its number of partitions at the start of the epoch
        self._timers = Timers(context.clock)
        self._states = context.cluster.part(ShareStates)
        self._settings = context.cluster.part(ShareSettings)

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def size(self) -> int:
        partition_count = sum(
            len(member.assigned) + len(self._target.get(member.id, ())) for member in self.members.values()
        )
        topic_bytes = sum(50 + len(topic) for member in self.members.values() for topic in member.topics)
        return 200 + 100 * partition_count + topic_bytes + 1000 * len(self.members)

    def heartbeat(self, heartbeat: ShareHeartbeat) -> Mapping[str, Any]:
        """Process a heartbeat, with which a member joins, stays alive or leaves; return the response.

        Raises:
            ApiError: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
        """
        if heartbeat.epoch == LEAVING:
            self._remove(self._find_member(heartbeat.member_id).id)
            return {"member_id": heartbeat.member_id, "member_epoch": heartbeat.epoch}
        member = self._find_or_create_member(heartbeat)
        old_state = member.epoch, member.assigned
        subscription_changed = self._update_member(member, heartbeat)
        partitions = {
            topic.id: len(topic.partitions)
            for member in self.members.values()
            for topic in self._existing_topics(member)
        }
        if subscription_changed or partitions != self._partitions:
            self._initialize_states(partitions)
            self.epoch += 1
            self._partitions = partitions
        if self.assignment_epoch < self.epoch:
            self._assign()
        self._reconcile(member)
        if (member.epoch, member.assigned) != old_state or subscription_changed:
            self._context.store(self)
        self._restart_session_timer(member)
        response: dict[str, Any] = {
            "member_id": member.id,
            "member_epoch": member.epoch,
            "heartbeat_interval_ms": self._settings.heartbeat_interval_ms(self.id),
        }
        if heartbeat.epoch == 0 or heartbeat.topics is not None or member.assigned != old_state[1]:
            response["assignment"] = {"topic_partitions": group_by_topic(member.assigned)}
        return response

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, version: int
    ) -> PartitionCheck:
        raise self._no_offsets_error()

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Allow everyone to fetch offsets; there are none."""

    def check_offset_deletion(self) -> None:
        raise self._no_offsets_error()

    def check_deletion(self) -> None:
        if self.members:
            raise ApiError(Error.NON_EMPTY_GROUP, "The group is not empty.")

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in member.topics for member in self.members.values())

    def unused_since(self, committed: CommittedOffset) -> int | None:
        return None

    def describe(self) -> Mapping[str, Any]:
        """Return the group's entry in a ShareGroupDescribe response."""
        return {
            "group_id": self.id,
            "group_state": self.state,
            "group_epoch": self.epoch,
            "assignment_epoch": self.assignment_epoch,
            "assignor_name": "simple",
            "members": [
                {
                    "member_id": member.id,
                    "rack_id": member.rack_id,
                    "member_epoch": member.epoch,
                    "client_id": member.client_id,
                    "client_host": member.client_host,
                    "subscribed_topic_names": sorted(member.topics),
                    "assignment": {"topic_partitions": group_by_topic_name(member.assigned, self._context.topics)},
                }
                for member in self.members.values()
            ],
        }

    def to_journal(self) -> Mapping[str, Any]:
        return {
            "type": self.type,
            "epoch": self.epoch,
            "assignment_epoch": self.assignment_epoch,
            "members": [
                {**asdict(member), "topics": sorted(member.topics), "assigned": sorted(member.assigned)}
                for member in self.members.values()
            ],
            "target": {member: sorted(partitions) for member, partitions in self._target.items()},
            "partitions": self._partitions,
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        self.epoch, self.assignment_epoch = stored["epoch"], stored["assignment_epoch"]
        self._target = {member: _to_partitions(partitions) for member, partitions in stored["target"].items()}
        self._partitions = dict(stored["partitions"])
        for member in stored["members"]:
            frozen_sets = {"topics": frozenset(member["topics"]), "assigned": _to_partitions(member["assigned"])}
            self.members[member["id"]] = ShareMember(**{**member, **frozen_sets})
            self._restart_session_timer(self.members[member["id"]])

    def close(self) -> None:
        self._timers.cancel_all()
        self._states.forget_all(self.id)

    def _find_or_create_member(self, heartbeat: ShareHeartbeat) -> ShareMember:
        """Return the member that sent a heartbeat, or a new member if it joins."""
        current = self.members.get(heartbeat.member_id)
        if current is None and len(self.members) >= self._settings.group_size:
            message = f"The share group has reached its maximum capacity of {self._settings.group_size} members."
            raise ApiError(Error.GROUP_MAX_SIZE_REACHED, message)
        if heartbeat.epoch == 0:
            return self.members.setdefault(heartbeat.member_id, ShareMember(heartbeat.member_id))
        member = self._find_member(heartbeat.member_id)
        if heartbeat.epoch in (member.epoch, member.previous_epoch):
            return member
        kind = "greater" if heartbeat.epoch > member.epoch else "smaller"
        previous_epoch_text = f", and it does not match the previous member epoch ({member.previous_epoch})"
        message = (
            f"The share group member has a {kind} member epoch ({heartbeat.epoch}) than the one known by the group "
            f"coordinator ({member.epoch}){previous_epoch_text if kind == 'smaller' else ''}. "
            "The member must abandon all its partitions and rejoin."
        )
        raise ApiError(Error.FENCED_MEMBER_EPOCH, message)

    def _find_member(self, member_id: str) -> ShareMember:
        if (member := self.members.get(member_id)) is None:
            raise ApiError(Error.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.id}.")
        return member

    def _update_member(self, member: ShareMember, heartbeat: ShareHeartbeat) -> bool:
        """Update the member from its heartbeat; return whether its subscription has changed."""
        old_topics = member.topics
        if heartbeat.rack_id is not None:
            member.rack_id = heartbeat.rack_id
        if heartbeat.topics is not None:
            member.topics = heartbeat.topics
        member.client_id, member.client_host = heartbeat.client_id, heartbeat.client_host
        return member.topics != old_topics

    def _existing_topics(self, member: ShareMember) -> list[Topic]:
        """Return the existing topics that a member subscribes to."""
        return [topic for name in member.topics if (topic := self._context.topics.by_name(name)) is not None]

    def _initialize_states(self, partitions: Mapping[str, int]) -> None:
        """Create a state for every partition that members may read."""
        for topic, count in partitions.items():
            for index in range(count):
                if self._states.get(self.id, (topic, index)) is None:
                    self._states.initialize(self.id, (topic, index), self.epoch + 1)

    def _assign(self) -> None:
        subscribers = [
            Subscriber(
                member.id,
                None,
                frozenset(topic.id for topic in self._existing_topics(member)),
                self._target.get(member.id, frozenset()),
            )
            for member in self.members.values()
        ]
        self._target = assign_simple(subscribers, self._partitions)
        self.assignment_epoch = self.epoch

    def _reconcile(self, member: ShareMember) -> None:
        topic_ids = {topic.id for topic in self._existing_topics(member)}
        member.assigned = frozenset(
            partition for partition in self._target.get(member.id, ()) if partition[0] in topic_ids
        )
        if member.epoch != self.assignment_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.assignment_epoch

    def _remove(self, member_id: str) -> None:
        del self.members[member_id]
        self._target.pop(member_id, None)
        self._timers.cancel(member_id)
        self.epoch += 1
        self._context.store(self)

    def _restart_session_timer(self, member: ShareMember) -> None:
        """Remove the member unless it sends a heartbeat in time."""
        timeout_ms = self._settings.session_timeout_ms(self.id)
        self._timers.set(member.id, timeout_ms, functools.partial(self._remove, member.id))

    def _no_offsets_error(self) -> ApiError:
        return ApiError(Error.GROUP_ID_NOT_FOUND, f"Group {self.id} is not a consumer group.")


def _to_partitions(stored: Iterable[tuple[str, int]]) -> frozenset[TopicIdPartition]:
    return frozenset((topic, index) for topic, index in stored)
