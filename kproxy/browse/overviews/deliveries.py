"""Deliveries: the time from the Produce request of a batch to a Fetch response with it, if lines show both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dissectors.bounded import BoundedDict

#: Batches written that may still be read, and batches read whose Produce response may still come.
MAX_WRITTEN: Final = 20_000
MAX_EARLY: Final = 1_000
#: A Produce response comes at most so long (ns) after consumers got its batch; otherwise another batch has the offset.
_EARLY_NS: Final = 60 * 1_000_000_000

#: Broker, topic, partition, base offset.
Batch = tuple[str, str, int, int]


@dataclass(slots=True)
class DeliveryTimes:
    """Times from Produce to Fetch: the last and the longest, in us; -1 if there was none."""

    last_us: int = -1
    max_us: int = -1

    def add(self, took_us: int) -> None:
        """Count a batch that was delivered."""
        self.last_us = took_us
        if took_us > self.max_us:
            self.max_us = took_us

    def merge(self, other: DeliveryTimes) -> None:
        """Add those of another counter, which may be older."""
        self.last_us = max(self.last_us, other.last_us) if self.last_us < 0 else self.last_us
        self.max_us = max(self.max_us, other.max_us)


class Deliveries:
    """Pairs the batches that were written with those that are read, by broker, partition and base offset.

    Only the first batch of a partition in a Fetch response is known, which waited longest.
    """

    def __init__(self) -> None:
        self._written: BoundedDict[Batch, int] = BoundedDict(MAX_WRITTEN)
        self._early: BoundedDict[Batch, int] = BoundedDict(MAX_EARLY)

    def write(self, batch: Batch, asked_at: int) -> int | None:
        """Note a batch that was requested to be written at `asked_at` (ns).

        Returns the time (us) to the response that brought it, if that came before the producer's response.
        """
        self._written[batch] = asked_at
        read_at = self._early.pop(batch, None)
        return (read_at - asked_at) // 1000 if read_at is not None and 0 <= read_at - asked_at < _EARLY_NS else None

    def read(self, batch: Batch, at: int) -> int | None:
        """The time (us) from the request to write a batch to `at` (ns), when it is read; None if that is unknown."""
        written_at = self._written.get(batch)
        if written_at is None or written_at > at:
            self._early[batch] = at
            return None
        return (at - written_at) // 1000
