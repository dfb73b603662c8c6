"""How much work decoding records may do: a few compressed bytes become very many records."""

from __future__ import annotations

#: What reading costs, in steps of about a microsecond of one core. Steps are counted, so results do not depend on the
#: machine or its load.
RECORD_STEPS = 4
#: What a record costs in addition if it is read as nodes: one of formats 0 and 1, or an irregular one.
WALKED_RECORD_STEPS = 40
_BYTES_PER_STEP = 256


class Allowance:
    """Steps that are left for records, shared by all calls it is passed to.

    Args:
        steps: How many there are. One piece of work may exceed them, and then nothing more is done.
        record_cost: The steps that each record is going to take. Those that reading it does not take are reserved.
    """

    __slots__ = ("record_cost", "steps")

    def __init__(self, steps: int, record_cost: int = RECORD_STEPS) -> None:
        self.steps = steps
        self.record_cost = record_cost

    @property
    def is_spent(self) -> bool:
        return self.steps <= 0

    def charge(self, steps: int) -> None:
        """Pay for work that is done, or is going to be."""
        self.steps -= steps

    def charge_bytes(self, count: int) -> None:
        """Pay for decompressed bytes."""
        self.steps -= count // _BYTES_PER_STEP

    def release(self, count: int) -> None:
        """Return what was reserved for `count` records, to charge what they really take."""
        self.steps += count * (self.record_cost - RECORD_STEPS)

    def take_records(self, count: int) -> int:
        """Pay for up to `count` records; returns how many may be read."""
        taken_count = max(0, min(count, -(-self.steps // self.record_cost)))
        self.steps -= taken_count * self.record_cost
        return taken_count
