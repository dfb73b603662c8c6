"""Limit the work of decoding records, because a few compressed bytes can become very many records."""

from __future__ import annotations

#: The cost of reading a record, in steps of about a microsecond on one core. Steps are counted, so results do not
#: depend on the machine or its load.
RECORD_STEPS = 4
#: The additional cost of a record that is read as nodes, because it has format 0 or 1 or is irregular.
WALKED_RECORD_STEPS = 40
_BYTES_PER_STEP = 256


class Allowance:
    """The steps left for decoding records, shared by all calls that get this allowance.

    Args:
        steps: The number of steps. The last piece of work may exceed it; then nothing more is done.
        record_cost: The steps that each record will take in total; steps not needed for reading it are reserved.
    """

    __slots__ = ("record_cost", "steps")

    def __init__(self, steps: int, record_cost: int = RECORD_STEPS) -> None:
        self.steps = steps
        self.record_cost = record_cost

    @property
    def is_spent(self) -> bool:
        return self.steps <= 0

    def charge(self, steps: int) -> None:
        """Deduct the steps of work that is done or about to be done."""
        self.steps -= steps

    def charge_bytes(self, count: int) -> None:
        """Deduct the steps for decompressed bytes."""
        self.steps -= count // _BYTES_PER_STEP

    def release(self, count: int) -> None:
        """Release the steps reserved for `count` records, so that the actual cost can be charged."""
        self.steps += count * (self.record_cost - RECORD_STEPS)

    def take_records(self, count: int) -> int:
        """Deduct the steps for up to `count` records; return how many may be read."""
        taken_count = max(0, min(count, -(-self.steps // self.record_cost)))
        self.steps -= taken_count * self.record_cost
        return taken_count
