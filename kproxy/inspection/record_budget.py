"""Limits the work that is spent on the records in bodies, in proportion to the traffic.

257 bytes can hold 100,000 records. Records are therefore decoded for as many steps (`dissectors.records.allowance`) as
the traffic has earned: by its time, by its bytes, and some in advance. All connections share the steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dissectors.records.allowance import RECORD_STEPS, Allowance

#: Steps earned per second of traffic: 10,000 records with keys and values, decoded for 70 % of a core.
PER_SECOND: Final = 700_000
#: Bytes of a frame that earn a step. Uncompressed records of 100 bytes earn as many steps as they cost.
_BYTES_PER_STEP: Final = 3
#: Steps that a run may spend at the start and after quiet seconds, live and in captures, and in one frame.
LIVE_ADVANCE: Final = 2_000_000
CAPTURE_ADVANCE: Final = 10_000_000
MAX_PER_FRAME: Final = 1_000_000
#: What a record costs with its first key or value; further ones are charged when they are decoded.
DECODED_RECORD: Final = 32


class RecordBudget:
    """The steps that are left.

    Args:
        advance: How many steps can be saved up.
        per_second: How many steps are earned per second.
    """

    def __init__(self, advance: int = LIVE_ADVANCE, per_second: int = PER_SECOND) -> None:
        self._steps_left = self._advance = advance
        self._per_second = per_second
        self._refilled_at: int | None = None

    @contextmanager
    def allowance(self, size: int, *, at: int, decodes_values: bool) -> Iterator[Allowance]:
        """Provide steps for a frame of `size` bytes that came at `at` (ns); deduct the used steps at the end."""
        if self._refilled_at is None:
            self._refilled_at = at
        elif (earned := (at - self._refilled_at) * self._per_second // 1_000_000_000) > 0:
            self._steps_left, self._refilled_at = min(self._advance, self._steps_left + earned), at
        granted = min(max(self._steps_left, 0), MAX_PER_FRAME)
        earned = size // _BYTES_PER_STEP
        allowance = Allowance(granted + earned, DECODED_RECORD if decodes_values else RECORD_STEPS)
        try:
            yield allowance
        finally:
            self._steps_left -= max(0, granted - allowance.steps)
