"""Group: what all types of groups have in common: committing, fetching and deleting offsets, deleting the group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from kproxy.broker.errors import ApiError, Error

if TYPE_CHECKING:
    from kproxy.broker.clock import Clock, Timer
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.groups.offsets import CommittedOffset
    from kproxy.broker.groups.settings import GroupSettings
    from kproxy.broker.topics import Topics

#: Takes the response body of a pending request.
Respond: TypeAlias = Callable[[Mapping[str, Any]], None]
#: Called with a topic id and a partition index; raises `ApiError` if its offset cannot be committed.
PartitionCheck: TypeAlias = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What groups need from the cluster.

    `store` is called with a group whose stored state has changed, `replace` with one that replaces another.
    """

    clock: Clock
    settings: GroupSettings
    topics: Topics
    store: Callable[[Group], None]
    replace: Callable[[Group], object]
    cluster: Cluster


class Group(ABC):
    """A group of any type.

    Attributes:
        type: Kafka's name for the type, e.g. ``classic``.
        id: The group id.
        protocol_type: ``consumer``, ``connect``, ...; empty if the group never had a member.
        is_removable: Whether it is eventually deleted once it has neither members nor offsets.
    """

    type: ClassVar[str]
    is_removable: ClassVar[bool] = True

    def __init__(self, group_id: str, context: GroupContext) -> None:
        self.id = group_id
        self.protocol_type = ""
        self._context = context

    @property
    @abstractmethod
    def state(self) -> str:
        """Kafka's name for the state, e.g. ``Stable``."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Approximate size of the members' data in bytes."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @abstractmethod
    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, version: int
    ) -> PartitionCheck:
        """Raise `ApiError` unless the sender may commit offsets; return the check for each partition.

        Args:
            member_id: Empty for clients that only store their offsets here.
            instance_id: The instance id of a static member.
            epoch: Generation or member epoch; -1 for clients without membership.
            transactional: Whether the commit is part of a transaction.
            version: The version of OffsetCommit or TxnOffsetCommit.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH, ...
        """

    @abstractmethod
    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise `ApiError` unless the sender may fetch offsets."""

    @abstractmethod
    def check_offset_deletion(self) -> None:
        """Raise `ApiError` unless offsets can be deleted, except those of subscribed topics (`is_subscribed`)."""

    def check_deletion(self) -> None:
        """Raise `ApiError` unless the group can be deleted."""
        if not self.is_empty:
            raise ApiError(Error.NON_EMPTY_GROUP, f"Group {self.id} is not empty.")

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to the topic or, if subscriptions are unknown, may do so."""

    @abstractmethod
    def unused_since(self, committed: CommittedOffset) -> int | None:
        """Return when an offset ceased to be used, in ms since the epoch; None while it may be in use."""

    @abstractmethod
    def to_journal(self) -> Mapping[str, Any]:
        """Return the state to store for a restart, including the group's `type`."""

    @abstractmethod
    def restore(self, stored: Mapping[str, Any]) -> None:
        """Restore the stored state. Its members have one session timeout to send a heartbeat."""

    @abstractmethod
    def close(self) -> None:
        """Close the group: cancel its timers."""


class Timers:
    """Timers by name. Setting a timer replaces the one with that name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[str, Timer] = {}

    def set(self, name: str, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call `callback` once after the delay, unless the timer is replaced or cancelled."""
        self.cancel(name)

        def expire() -> None:
            del self._pending[name]
            callback()

        self._pending[name] = self._clock.schedule(delay_ms, expire)

    def has(self, name: str) -> bool:
        """Whether the timer is set and has not expired."""
        return name in self._pending

    def cancel(self, name: str) -> None:
        """Cancel a timer, if it is set."""
        if (timer := self._pending.pop(name, None)) is not None:
            timer.cancel()

    def cancel_all(self) -> None:
        """Cancel all timers."""
        for name in list(self._pending):
            self.cancel(name)


def no_check(topic_id: str, partition: int) -> None:
    """Allow every commit."""
