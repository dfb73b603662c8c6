"""Rank the readings that fit by probability, assign confidences, and merge equivalent ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dissectors.diagnosis.best_explanation import writes_same_bytes
from dissectors.diagnosis.implausible_values import SMALL_FRAME_BYTES, frame_implausibility
from dissectors.diagnosis.relation_costs import relation_cost
from dissectors.diagnosis.restorations import find_restoring_steps
from dissectors.diagnosis.search import FittingReading
from dissectors.diagnosis.value_costs import COST_WEIGHT
from dissectors.edits import LOOSE_KINDS, Edit
from dissectors.wire.layout import Layout
from dissectors.wire.node import Node
from dissectors.wire.walk import walk

#: The most readings that are examined more closely.
MAX_FINALISTS = 16

#: A reading is a finalist if it costs at most this many bits more than the best one.
FINALIST_DISTANCE = 16.0

#: The largest frame for which edits are compared by the bytes that they write, and how many bits less probable an edit
#: may be than another edit that it explains.
MAX_COMPARED_BYTES = 4 << 10
EXPLANATION_DISTANCE = 4.0

#: The share of a reading's confidence that goes to the edit that explains it, because a confidence tells how likely it
#: is that an edit wrote these bytes. It is less than 1 because the writer may have made the other error, which stays
#: a rival.
EXPLAINED_SHARE = 0.8

#: The prior, in bits, of a writer that deviates in a way that none of the edits tried describes.
NO_EDIT_PRIOR = 24.0


@dataclass(slots=True)
class RankedReading:
    """A reading: its edit (None for the correct layout), equivalent edits, and its confidence."""

    edit: Edit | None
    layout: Layout
    cost: float
    prior: float
    also: list[Edit] = field(default_factory=list)
    confidence: float = 0.0
    values: Mapping[str, Any] | None = None

    @property
    def loose(self) -> bool:
        """Whether its edit would explain nearly any frame."""
        return self.edit is not None and self.edit.kind in LOOSE_KINDS


def rank(frame: bytes, readings: list[FittingReading], correct_layout: Layout) -> list[RankedReading]:
    """Examine the readings more closely and return them: the one to report first, then the others by probability.

    Args:
        frame: The frame, including its length prefix.
        readings: The result of `dissectors.diagnosis.search.Search.run`.
        correct_layout: Kafka's layout of the frame.
    """
    ranked = [
        RankedReading(candidate.edit, candidate.layout, candidate.cost, candidate.prior) for candidate in readings
    ]
    finalists = [candidate for candidate in ranked if candidate.cost <= ranked[0].cost + FINALIST_DISTANCE][
        :MAX_FINALISTS
    ]
    remaining = ranked[len(finalists) :]
    if len(frame) <= SMALL_FRAME_BYTES:
        first_look_cost = ranked[0].cost
        finalists = _examine_finalists(frame, finalists, correct_layout)
        # The other readings may contradict themselves just as much.
        added_cost = max(min(candidate.cost for candidate in finalists) - first_look_cost, 0.0)
        for candidate in remaining:
            candidate.cost += added_cost
    ranked = sorted(finalists, key=lambda candidate: candidate.cost) + remaining
    weights = [2.0 ** ((ranked[0].cost - candidate.cost) * COST_WEIGHT) for candidate in ranked]
    total = sum(weights) + 2.0 ** ((_implausibility(ranked[0]) - NO_EDIT_PRIOR) * COST_WEIGHT)
    for candidate, weight in zip(ranked, weights, strict=True):
        candidate.confidence = weight / total
    if len(frame) <= MAX_COMPARED_BYTES:
        first = _choose_first(ranked, correct_layout)
        others = [candidate for candidate in ranked if candidate is not first]
        _shift_confidence(first, others, _explained_confidence(correct_layout, first, ranked))
        ranked = [first, *others]
    return ranked


def _implausibility(best: RankedReading) -> float:
    """Return the bits by which the best reading contradicts itself: the only evidence against all edits tried."""
    if best.edit is None or best.loose or best.values is None:
        return 0.0
    return frame_implausibility(best.layout, best.values)


def _shift_confidence(first: RankedReading, others: list[RankedReading], explained_confidence: float) -> None:
    """Give the first reading part of the confidence of the readings that it explains; scale the others down."""
    added = EXPLAINED_SHARE * (explained_confidence - first.confidence)
    total = sum(candidate.confidence for candidate in others)
    for candidate in others:
        candidate.confidence *= max(total - added, 0.0) / (total or 1.0)
    first.confidence += added


def _examine_finalists(frame: bytes, finalists: list[RankedReading], correct_layout: Layout) -> list[RankedReading]:
    """Add the costs of relations between fields, and merge equivalent readings.

    Among equivalent edits, one that removes something and then restores it is not named first.
    """
    by_reading: dict[tuple[object, ...], RankedReading] = {}
    for candidate in finalists:
        walked = walk(candidate.layout, frame, 4)
        same_reading = by_reading.setdefault((candidate.loose, *_leaves(walked.nodes)), candidate)
        if same_reading is candidate:
            candidate.values = walked.values
            candidate.cost += relation_cost(walked.values.get("header") or {}, walked.values.get("body") or {})
        elif candidate.edit is not None and same_reading.edit is not None:
            if find_restoring_steps(same_reading.edit, correct_layout) and not find_restoring_steps(
                candidate.edit, correct_layout
            ):
                same_reading.also.append(same_reading.edit)
                same_reading.edit, same_reading.layout = candidate.edit, candidate.layout
            else:
                same_reading.also.append(candidate.edit)
    return list(by_reading.values())


def _choose_first(ranked: list[RankedReading], correct_layout: Layout) -> RankedReading:
    """Choose, among readings nearly as probable as the best, the one whose edit explains most of the others.

    An edit explains another one if it writes the same bytes for the values that the other read. A missing error code
    explains a throttle time written as int16 before an error code of 0. The reverse is chance: it needs a code of 0.
    """
    nearly_best = [candidate for candidate in ranked if candidate.cost <= ranked[0].cost + EXPLANATION_DISTANCE]
    return max(nearly_best, key=lambda candidate: _explained_confidence(correct_layout, candidate, ranked))


def _explained_confidence(correct_layout: Layout, candidate: RankedReading, ranked: list[RankedReading]) -> float:
    """Return the total confidence of a reading and of the readings that its edit explains."""
    return sum(other.confidence for other in ranked[:MAX_FINALISTS] if _explains(correct_layout, candidate, other))


def _explains(correct_layout: Layout, candidate: RankedReading, other: RankedReading) -> bool:
    if candidate is other:
        return True
    if (
        None in (candidate.edit, other.edit)
        or candidate.loose
        or other.loose
        or candidate.values is None
        or other.values is None
    ):
        return False
    return writes_same_bytes(correct_layout, candidate.layout, candidate.values, other.layout, other.values)


def _leaves(nodes: list[Node], path: tuple[str, ...] = ()) -> Iterator[tuple[object, ...]]:
    for node in nodes:
        if node.children:
            yield from _leaves(node.children, (*path, node.name))
        else:
            yield *path, node.name, node.start, node.end
