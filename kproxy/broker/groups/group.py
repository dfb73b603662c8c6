"""Group: what every kind of group answers when offsets are committed, fetched or deleted, or the group itself is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from kproxy.broker.errors import Error, Refused

if TYPE_CHECKING:
    from kproxy.broker.clock import Clock, Timer
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.groups.offsets import Committed
    from kproxy.broker.groups.settings import GroupSettings
    from kproxy.broker.topics import Topics

#: Takes the body of the answer to a request that waits.
Answer: TypeAlias = Callable[[Mapping[str, Any]], None]
#: Called with the id of a topic and the index of a partition; raises `Refused` if its offset cannot be committed.
PlaceCheck: TypeAlias = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What groups need of the cluster.

    `keep` is called when what outlives a restart of a group has changed, `replace` with a group that another becomes.
    """

    clock: Clock
    settings: GroupSettings
    topics: Topics
    keep: Callable[[Group], None]
    replace: Callable[[Group], object]
    cluster: Cluster


class Group(ABC):
    """A group of any kind.

    Attributes:
        type: Kafka's name of the kind, e.g. ``classic``.
        id: The group's.
        protocol_type: ``consumer``, ``connect``, ...; empty where the group never had a member.
        gives_way: Without members and offsets it is forgotten in time.
    """

    type: ClassVar[str]
    gives_way: ClassVar[bool] = True

    def __init__(self, group_id: str, context: GroupContext) -> None:
        self.id = group_id
        self.protocol_type = ""
        self._context = context

    @property
    @abstractmethod
    def state(self) -> str:
        """Kafka's name of the state, e.g. ``Stable``."""

    @property
    @abstractmethod
    def size(self) -> int:
        """About how many bytes the members' data take."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @abstractmethod
    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool, version: int
    ) -> PlaceCheck:
        """Whether who says that may commit offsets; gives the check of each partition.

        Args:
            member_id: Empty for clients that only keep their offsets here.
            instance_id: Of a static member.
            epoch: Generation or member epoch, -1 for those clients.
            transactional: Within a transaction.
            version: Of OffsetCommit, or of TxnOffsetCommit.

        Raises:
            Refused: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH, ...
        """

    @abstractmethod
    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise `Refused` unless who says that may fetch offsets."""

    @abstractmethod
    def check_offset_deletion(self) -> None:
        """Raise `Refused` unless offsets can be deleted, those of `is_subscribed` aside."""

    def check_deletion(self) -> None:
        """Raise `Refused` unless the group can be deleted."""
        if not self.is_empty:
            raise Refused(Error.NON_EMPTY_GROUP, f"Group {self.id} is not empty.")

    @abstractmethod
    def is_subscribed(self, topic: str) -> bool:
        """Whether some member reads the topic, as far as can be known."""

    @abstractmethod
    def unused_since(self, committed: Committed) -> int | None:
        """Since when nobody uses an offset, in ms since the epoch; None while somebody may."""

    @abstractmethod
    def kept(self) -> Mapping[str, Any]:
        """What of it outlives a restart, with its `type`."""

    @abstractmethod
    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from what was kept: who was a member has its session timeout to call."""

    @abstractmethod
    def close(self) -> None:
        """It is gone: no timer calls it any more."""


class Timers:
    """Timers by name; setting one anew forgets what it was set to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._set: dict[str, Timer] = {}

    def set(self, name: str, delay_ms: int, call: Callable[[], None]) -> None:
        """Have `call` called once, unless the timer is set anew or cancelled before."""
        self.cancel(name)

        def over() -> None:
            del self._set[name]
            call()

        self._set[name] = self._clock.later(delay_ms, over)

    def has(self, name: str) -> bool:
        """Whether it is set and not over."""
        return name in self._set

    def cancel(self, name: str) -> None:
        """Forget a timer, if it is set."""
        if (handle := self._set.pop(name, None)) is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        """Forget all."""
        for name in list(self._set):
            self.cancel(name)


def no_check(topic_id: str, partition: int) -> None:
    """Every partition's offset can be committed."""
