"""Stored states of share partitions: the progress of each group, and records that are complete or to be redelivered.

Kafka's share coordinators store them in the topic ``__share_group_state``; here they are in the journal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.topics import Topics

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.shares.partition import SharePartition

#: An unknown offset or count.
UNKNOWN: Final = -1

_TABLE: Final = "share states"
_MAX_STATES: Final = 200_000


class StateBatch(NamedTuple):
    """Consecutive records with the same state (a code of `RecordState`), as in Kafka's state batches."""

    first: int
    last: int
    state: int
    deliveries: int


@dataclass(slots=True, eq=False)
class ShareState:
    """The stored state of one partition for one group.

    Attributes:
        state_epoch: A number that increases when the state is reset.
        leader_epoch: The epoch of the leader that last read it.
        start_offset: The offset of the first record that is not complete; -1 until a record has been delivered, and
            then acknowledged or released.
        complete: Number of complete records from `start_offset` on; -1 while that is -1.
        batches: The state batches, sorted by offset.
        live: The open share partition.
    """

    state_epoch: int
    start_offset: int = UNKNOWN
    leader_epoch: int = 0
    complete: int = UNKNOWN
    batches: list[StateBatch] = field(default_factory=list)
    live: SharePartition | None = None


class ShareStates:
    """The states of groups' partitions, by topic id and partition index."""

    def __init__(self, cluster: Cluster) -> None:
        self._topics = cluster.part(Topics)
        self._journal = cluster.journal
        self._count = 0
        self._groups: dict[str, dict[TopicIdPartition, ShareState]] = {}
        for key, value in cluster.journal.entries(_TABLE):
            group, topic, index = json.loads(key)
            state = ShareState(**{**value, "batches": [StateBatch(*batch) for batch in value["batches"]]})
            self._groups.setdefault(group, {})[topic, index] = state
            self._count += 1

    def for_group(self, group: str) -> Mapping[TopicIdPartition, ShareState]:
        """Return a group's states, after removing those of deleted topics."""
        states = self._groups.get(group, {})
        for partition in [partition for partition in states if self._topics.by_id(partition[0]) is None]:
            self.forget(group, partition)
        return states

    def get(self, group: str, partition: TopicIdPartition) -> ShareState | None:
        """Return the state of one partition."""
        return self._groups.get(group, {}).get(partition)

    def initialize(
        self, group: str, partition: TopicIdPartition, state_epoch: int, start_offset: int = UNKNOWN
    ) -> None:
        """Set the initial state of a group in a partition, replacing any existing one.

        Args:
            group: The group id.
            partition: The partition.
            state_epoch: The group's epoch.
            start_offset: Where to start; -1 for ``share.auto.offset.reset``.

        Raises:
            ApiError: GROUP_MAX_SIZE_REACHED if all groups together have too many states.
        """
        if self.get(group, partition) is None and self._count >= _MAX_STATES:
            raise ApiError(Error.GROUP_MAX_SIZE_REACHED, f"share groups have {_MAX_STATES} partitions")
        self.forget(group, partition)
        self._groups.setdefault(group, {})[partition] = state = ShareState(state_epoch, start_offset)
        state.complete = UNKNOWN if start_offset == UNKNOWN else 0
        self._count += 1
        self.store(group, partition, state)

    def store(self, group: str, partition: TopicIdPartition, state: ShareState) -> None:
        """Store a state so that it survives a restart."""
        value = {
            "state_epoch": state.state_epoch,
            "start_offset": state.start_offset,
            "leader_epoch": state.leader_epoch,
            "complete": state.complete,
            "batches": state.batches,
        }
        self._journal.put(_TABLE, json.dumps((group, *partition)), value)

    def forget(self, group: str, partition: TopicIdPartition) -> None:
        """Remove a state, if it exists, and close its share partition."""
        states = self._groups.get(group, {})
        if (state := states.pop(partition, None)) is not None:
            self._count -= 1
            if state.live is not None:
                state.live.close()
            self._journal.put(_TABLE, json.dumps((group, *partition)), None)
        if not states:
            self._groups.pop(group, None)

    def forget_all(self, group: str) -> None:
        """Remove all states of a group."""
        for partition in list(self._groups.get(group, ())):
            self.forget(group, partition)
