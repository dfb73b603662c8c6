"""Assigns unique producer ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

_BLOCK_SIZE: Final = 1000  # ids reserved in the journal at a time; Kafka's ProducerIdsBlock


class ProducerIds:
    """Counts producer ids; none is used twice, even after a restart."""

    def __init__(self, cluster: Cluster) -> None:
        self._journal = cluster.journal
        self._next = self._end = max((value["end"] for _, value in self._journal.entries("producer ids")), default=0)

    def new(self) -> int:
        """Return a new id."""
        if self._next == self._end:
            self._end += _BLOCK_SIZE
            self._journal.put("producer ids", "block", {"end": self._end})
        self._next += 1
        return self._next - 1
