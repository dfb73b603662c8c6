"""Deliveries: the time from a batch's Produce request to the Fetch response with it, if the trace has both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dissectors.bounded import BoundedDict

#: Maximum numbers of written batches that may yet be read, and of batches read before their Produce response.
MAX_WRITTEN: Final = 20_000
MAX_EARLY: Final = 1_000
#: A Produce response that comes later than this (ns) after a Fetch of its offset is about another batch.
_EARLY_NS: Final = 60 * 1_000_000_000

#: Broker, topic, partition, base offset.
Batch = tuple[str, str, int, int]


@dataclass(slots=True)
class DeliveryTimes:
    """Times from Produce to Fetch: the latest and the longest, in us; -1 if there is none."""

    last_us: int = -1
    max_us: int = -1

    def add(self, took_us: int) -> None:
        """Add the time that the delivery of a batch took."""
        self.last_us = took_us
        if took_us > self.max_us:
            self.max_us = took_us

    def merge(self, other: DeliveryTimes) -> None:
        """Add the times of another counter, which may be older."""
        self.last_us = max(self.last_us, other.last_us) if self.last_us < 0 else self.last_us
        self.max_us = max(self.max_us, other.max_us)


class Deliveries:
    """Pairs written batches with read batches by broker, partition and base offset.

    Of each partition in a Fetch response, only the first batch is known; it has waited longest.
    """

    def __init__(self) -> None:
        self._written: BoundedDict[Batch, int] = BoundedDict(MAX_WRITTEN)
        self._early: BoundedDict[Batch, int] = BoundedDict(MAX_EARLY)

    def write(self, batch: Batch, requested_at: int) -> int | None:
        """Record a batch whose Produce request was sent at `requested_at` (ns).

        Returns the time (us) until a Fetch response contained it, if that came before the Produce response.
        """
        self._written[batch] = requested_at
        read_at = self._early.pop(batch, None)
        if read_at is None or not 0 <= read_at - requested_at < _EARLY_NS:
            return None
        return (read_at - requested_at) // 1000

    def read(self, batch: Batch, at: int) -> int | None:
        """Record that a batch was read at `at` (ns); return the time (us) since its Produce request, if known."""
        written_at = self._written.get(batch)
        if written_at is None or written_at > at:
            self._early[batch] = at
            return None
        return (at - written_at) // 1000
