"""Groups: all groups of a cluster, of every type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.consumer import ConsumerGroup
from kproxy.broker.groups.group import Group, GroupContext
from kproxy.broker.groups.heartbeat import ConsumerHeartbeat
from kproxy.broker.groups.offsets import Offsets
from kproxy.broker.groups.settings import GroupSettings
from kproxy.broker.groups.upgrade import upgrade
from kproxy.broker.shares.group import ShareGroup
from kproxy.broker.topics import Topics

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

G = TypeVar("G", bound=Group)

_GROUP_TYPES: Final[dict[str, type[Group]]] = {kind.type: kind for kind in (ClassicGroup, ConsumerGroup, ShareGroup)}
_TABLE: Final = "groups"
_MAX_GROUPS: Final = 10_000
_MAX_BYTES: Final = 64 << 20  # of all members' data: subscriptions, assignments


class Groups:
    """The groups of a cluster by id. A group without members and offsets is eventually deleted."""

    def __init__(self, cluster: Cluster) -> None:
        self.settings = cluster.part(GroupSettings)
        self._clock = cluster.clock
        self._journal = cluster.journal
        self._offsets = cluster.part(Offsets)
        self._context = GroupContext(cluster.clock, self.settings, cluster.part(Topics), self.store, self.add, cluster)
        self._by_id: dict[str, Group] = {}
        self._last_clean_up = cluster.clock.now()
        self._member_bytes = 0  # an upper bound: includes members that have left since the last count
        for group_id, stored in cluster.journal.entries(_TABLE):
            group = self._by_id[group_id] = _GROUP_TYPES[stored["type"]](group_id, self._context)
            group.restore(stored)
        for group_id in self._offsets.groups():
            if group_id not in self._by_id:
                self.add(ClassicGroup(group_id, self._context))

    def __iter__(self) -> Iterator[Group]:
        self._clean_up()
        return iter(list(self._by_id.values()))

    def get(self, group_id: str) -> Group | None:
        """Return a group of any type."""
        self._clean_up()
        return self._by_id.get(group_id)

    def find(self, group_id: str) -> Group:
        """Return a group of any type; raise `ApiError` with GROUP_ID_NOT_FOUND if it does not exist."""
        if (group := self.get(group_id)) is None:
            raise ApiError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def for_commits(self, group_id: str) -> Group:
        """Return a group, creating one without members if necessary, for clients that only store offsets."""
        return self.get(group_id) or self.add(ClassicGroup(group_id, self._context))

    def classic_group(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        """Return the group that classic members can join; create one if there is none, or only an empty consumer group.

        Raises:
            ApiError: INCONSISTENT_GROUP_PROTOCOL if classic members cannot join.
        """
        group = self.get(group_id)
        if isinstance(group, ClassicGroup):
            return group
        if group is None or (isinstance(group, ConsumerGroup) and group.is_empty):
            return self.add(ClassicGroup(group_id, self._context))
        if isinstance(group, ConsumerGroup) and self.settings.allows_migration("upgrade", "downgrade"):
            return group
        raise ApiError(Error.INCONSISTENT_GROUP_PROTOCOL)

    def consumer_heartbeat(self, group_id: str, heartbeat: ConsumerHeartbeat) -> Mapping[str, Any]:
        """Process a heartbeat of a consumer group member; joining may create the group.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND if the group cannot exist; see also `ConsumerGroup.consumer_heartbeat`.
        """
        group = self.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group.consumer_heartbeat(heartbeat)
        if group is None and heartbeat.epoch != 0:
            kind = "Consumer group" if heartbeat.epoch > 0 else "Group"
            raise ApiError(Error.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        if heartbeat.epoch != 0 or not isinstance(group, ClassicGroup | None):
            raise ApiError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        self._ensure_capacity(group_id)
        consumer_group = ConsumerGroup(group_id, self._context)
        try:
            if group is not None and not group.is_empty:
                upgrade(group, consumer_group, self._context)
            response = consumer_group.consumer_heartbeat(heartbeat)
        except ApiError:  # a rejected member does not create a group
            consumer_group.close()
            raise
        self.add(consumer_group)
        return response

    def share_group(self, group_id: str, *, create: bool = False) -> ShareGroup:
        """Return a share group; with `create`, create it if it does not exist.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND if the group does not exist or has another type.
        """
        group = self.get(group_id)
        if group is None and create:
            return self.add(ShareGroup(group_id, self._context))
        if not isinstance(group, ShareGroup):
            message = f"Group {group_id} is not a share group." if group else f"Group {group_id} not found."
            raise ApiError(Error.GROUP_ID_NOT_FOUND, message)
        return group

    def add(self, group: G) -> G:
        """Add a group, replacing any other with its id.

        Raises:
            ApiError: GROUP_MAX_SIZE_REACHED if there are too many groups.
        """
        self._ensure_capacity(group.id)
        replaced = self._by_id.get(group.id)
        self._by_id[group.id] = group
        if replaced is not None and replaced is not group:
            replaced.close()
            self.store(group)
        return group

    def delete(self, group: Group) -> None:
        """Delete a group and its offsets."""
        self._drop(group)
        self._offsets.forget(group.id)

    def store(self, group: Group) -> None:
        """Store a group's state for a restart."""
        self._journal.put(_TABLE, group.id, group.to_journal())

    def check_capacity(self, size: int) -> None:
        """Raise `ApiError` with GROUP_MAX_SIZE_REACHED if there is no room for that many bytes of member data."""
        self._member_bytes += size
        if self._member_bytes > _MAX_BYTES:
            self._member_bytes = size + sum(group.size for group in self._by_id.values())
        if self._member_bytes > _MAX_BYTES:
            self._member_bytes -= size
            raise ApiError(Error.GROUP_MAX_SIZE_REACHED, f"members have brought {_MAX_BYTES} bytes")

    def _ensure_capacity(self, group_id: str) -> None:
        if group_id not in self._by_id and len(self._by_id) >= _MAX_GROUPS:
            self._clean_up(is_forced=True)
            if len(self._by_id) >= _MAX_GROUPS:
                raise ApiError(Error.GROUP_MAX_SIZE_REACHED, f"there are {_MAX_GROUPS} groups")

    def _clean_up(self, *, is_forced: bool = False) -> None:
        """Delete expired offsets, and groups that have neither members nor offsets."""
        now_ms = self._clock.now()
        if not is_forced and now_ms < self._last_clean_up + self.settings.retention_check_ms:
            return
        self._last_clean_up = now_ms
        for group in list(self._by_id.values()):
            self._expire_offsets(group, now_ms)
            if not group.is_removable or not group.is_empty:
                continue
            if not self._offsets.for_group(group.id) and not self._offsets.pending(group.id):
                self._drop(group)

    def _expire_offsets(self, group: Group, now_ms: int) -> None:
        pending = self._offsets.pending(group.id)
        for topic_partition, committed in self._offsets.for_group(group.id).items():
            unused_since = group.unused_since(committed)
            if unused_since is None or topic_partition in pending or group.is_subscribed(topic_partition[0]):
                continue
            expires_at = unused_since + self.settings.retention_ms if committed.expires is None else committed.expires
            if now_ms >= expires_at:
                self._offsets.delete(group.id, topic_partition)

    def _drop(self, group: Group) -> None:
        group.close()
        del self._by_id[group.id]
        self._journal.put(_TABLE, group.id, None)
