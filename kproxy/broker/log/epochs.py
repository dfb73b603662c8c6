"""Epochs: where in a log each leader's time began."""

from __future__ import annotations

import bisect


class Epochs:
    """Leader epochs of a partition with the offset at which each began (Kafka's LeaderEpochFileCache)."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def latest(self) -> int:
        """The newest epoch; -1 before the first."""
        return self._epochs[-1] if self._epochs else -1

    def begin(self, epoch: int, offset: int) -> None:
        """A leader begins to write at `offset`; an epoch that is not new says nothing."""
        if epoch <= self.latest:
            return
        while self._starts and self._starts[-1] >= offset:  # nothing was written in that one
            del self._epochs[-1], self._starts[-1]
        self._epochs.append(epoch)
        self._starts.append(offset)

    def at(self, offset: int) -> int:
        """The epoch that the record at an offset was written in; -1 before the first."""
        index = bisect.bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else -1

    def end(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """The greatest epoch that is not above `epoch`, and one past its last offset; (-1, -1) if none is known.

        Args:
            epoch: Asked for.
            end_offset: Of the log.
        """
        if epoch == self.latest:
            return epoch, end_offset
        index = bisect.bisect_right(self._epochs, epoch)
        if epoch < 0 or epoch > self.latest:
            return -1, -1
        return (self._epochs[index - 1], self._starts[index]) if index else (epoch, self._starts[0])

    def forget_before(self, offset: int) -> None:
        """The log begins at `offset` now."""
        gone = bisect.bisect_right(self._starts, offset) - 1
        if gone > 0:
            del self._epochs[:gone], self._starts[:gone]
        if self._starts and self._starts[0] < offset:
            self._starts[0] = offset
