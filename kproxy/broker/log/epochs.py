"""The leader epochs of a log."""

from __future__ import annotations

import bisect


class LeaderEpochs:
    """The leader epochs of a partition, with their start offsets (Kafka's LeaderEpochFileCache)."""

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []

    @property
    def latest(self) -> int:
        """The newest epoch; -1 if there is none."""
        return self._epochs[-1] if self._epochs else -1

    def begin(self, epoch: int, offset: int) -> None:
        """Start an epoch at `offset`, unless the epoch is not new."""
        if epoch <= self.latest:
            return
        while self._starts and self._starts[-1] >= offset:  # nothing was written in that epoch
            del self._epochs[-1], self._starts[-1]
        self._epochs.append(epoch)
        self._starts.append(offset)

    def at(self, offset: int) -> int:
        """Return the epoch of the record at an offset; -1 before the first epoch."""
        index = bisect.bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else -1

    def end(self, epoch: int, end_offset: int) -> tuple[int, int]:
        """Return the highest epoch up to `epoch`, and its end offset; (-1, -1) if they are unknown.

        Args:
            epoch: The requested epoch.
            end_offset: The log's end offset.
        """
        if epoch == self.latest:
            return epoch, end_offset
        index = bisect.bisect_right(self._epochs, epoch)
        if epoch < 0 or epoch > self.latest:
            return -1, -1
        return (self._epochs[index - 1], self._starts[index]) if index else (epoch, self._starts[0])

    def forget_before(self, offset: int) -> None:
        """Remove the epochs that ended before `offset`, the new start of the log."""
        removed_count = bisect.bisect_right(self._starts, offset) - 1
        if removed_count > 0:
            del self._epochs[:removed_count], self._starts[:removed_count]
        if self._starts and self._starts[0] < offset:
            self._starts[0] = offset
