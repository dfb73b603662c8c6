"""The event that tells rules that a group makes no progress."""

from __future__ import annotations

from dataclasses import dataclass

from dissectors.groups.model import StallKind


@dataclass(frozen=True, slots=True)
class GroupStalled:
    """A stall of a group, sent at time `at` (ns) when it is detected and again when it becomes more severe.

    `since` and `row` identify the stall within its group, as in `dissectors.groups.model.Stall`.
    """

    at: int
    group_id: str
    kind: StallKind
    severity: str
    text: str
    hint: str
    since: int
    row: int
