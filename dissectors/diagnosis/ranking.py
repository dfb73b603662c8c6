"""Ranking: orders the readings that fit by probability, with a confidence; merges those that read the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dissectors.diagnosis.absurd_values import SMALL, frame_absurdity
from dissectors.diagnosis.best_explanation import writes_same_bytes
from dissectors.diagnosis.relation_costs import relation_cost
from dissectors.diagnosis.restorations import restored
from dissectors.diagnosis.search import Found
from dissectors.diagnosis.value_costs import TEMPER
from dissectors.edits import LOOSE, Edit
from dissectors.wire.layout import Layout
from dissectors.wire.node import Node
from dissectors.wire.walk import walk

#: The number of readings that get a second look.
FINALISTS = 16

#: The distance in bits from the best reading within which another one is a finalist.
CLOSE = 16.0

#: The largest frame for which edits are compared by the bytes that they write, and how many bits less probable than
#: another edit an edit may be that explains it too.
NAMED = 4 << 10
STANDS_FOR = 4.0

#: The part of the confidence of a reading that goes to the edit that explains it: a confidence says how likely an edit
#: writes these bytes. Not all, because the writer may have made the other error: the rest keeps it among the rivals.
EXPLAINED = 0.8

#: The prior, in bits, of a writer that departs in a way that none of the tried edits describes.
NONE = 24.0


@dataclass(slots=True)
class Ranked:
    """A reading: its edit (None for the right layout), equivalent edits, and its confidence."""

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
        return self.edit is not None and self.edit.kind in LOOSE


def rank(frame: bytes, readings: list[Found], right: Layout) -> list[Ranked]:
    """The readings with the costs of a second look: first the one to report, then by probability.

    Args:
        frame: Length prefix included.
        readings: The result of `dissectors.diagnosis.search.Search.run`.
        right: Kafka's layout of the frame.
    """
    ranked = [Ranked(candidate.edit, candidate.layout, candidate.cost, candidate.prior) for candidate in readings]
    finalists = [candidate for candidate in ranked if candidate.cost <= ranked[0].cost + CLOSE][:FINALISTS]
    remaining = ranked[len(finalists) :]
    if len(frame) <= SMALL:
        old_cost = ranked[0].cost
        finalists = _second_look(frame, finalists, right)
        # The other readings may contradict themselves just as much.
        added_cost = max(min(candidate.cost for candidate in finalists) - old_cost, 0.0)
        for candidate in remaining:
            candidate.cost += added_cost
    ranked = sorted(finalists, key=lambda candidate: candidate.cost) + remaining
    weights = [2.0 ** ((ranked[0].cost - candidate.cost) * TEMPER) for candidate in ranked]
    total = sum(weights) + 2.0 ** ((_absurdity(ranked[0]) - NONE) * TEMPER)
    for candidate, weight in zip(ranked, weights, strict=True):
        candidate.confidence = weight / total
    if len(frame) <= NAMED:
        first = _first(ranked, right)
        others = [candidate for candidate in ranked if candidate is not first]
        _share(first, others, _explained(right, first, ranked))
        ranked = [first, *others]
    return ranked


def _absurdity(best: Ranked) -> float:
    """By how many bits the best reading contradicts itself: the only evidence that none of the tried edits is right."""
    if best.edit is None or best.loose or best.values is None:
        return 0.0
    return frame_absurdity(best.layout, best.values)


def _share(first: Ranked, others: list[Ranked], explained_confidence: float) -> None:
    """Give the first reading a part of the confidences of those that it explains, and the others what remains."""
    added = EXPLAINED * (explained_confidence - first.confidence)
    total = sum(candidate.confidence for candidate in others)
    for candidate in others:
        candidate.confidence *= max(total - added, 0.0) / (total or 1.0)
    first.confidence += added


def _second_look(frame: bytes, finalists: list[Ranked], right: Layout) -> list[Ranked]:
    """The readings with the costs of relations between fields; equivalent ones are merged.

    Of these, an edit that takes something away and brings it back is not the first.
    """
    by_reading: dict[tuple[object, ...], Ranked] = {}
    for candidate in finalists:
        walked = walk(candidate.layout, frame, 4)
        same_reading = by_reading.setdefault((candidate.loose, *_leaves(walked.nodes)), candidate)
        if same_reading is candidate:
            candidate.values = walked.values
            candidate.cost += relation_cost(walked.values.get("header") or {}, walked.values.get("body") or {})
        elif candidate.edit is not None and same_reading.edit is not None:
            if restored(same_reading.edit, right) and not restored(candidate.edit, right):
                same_reading.also.append(same_reading.edit)
                same_reading.edit, same_reading.layout = candidate.edit, candidate.layout
            else:
                same_reading.also.append(candidate.edit)
    return list(by_reading.values())


def _first(ranked: list[Ranked], right: Layout) -> Ranked:
    """Of the readings nearly as probable as the best, the one whose edit explains the largest share of the others.

    An edit explains another one if it writes the same bytes for the values that the other read: a missing error code
    explains a throttle time written as int16 before an error code of 0. The reverse is chance: the code could be any.
    """
    nearly_best = [candidate for candidate in ranked if candidate.cost <= ranked[0].cost + STANDS_FOR]
    return max(nearly_best, key=lambda candidate: _explained(right, candidate, ranked))


def _explained(right: Layout, candidate: Ranked, ranked: list[Ranked]) -> float:
    """The confidence of a reading and of those that its edit explains."""
    return sum(other.confidence for other in ranked[:FINALISTS] if _stands_for(right, candidate, other))


def _stands_for(right: Layout, candidate: Ranked, other: Ranked) -> bool:
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
    return writes_same_bytes(right, candidate.layout, candidate.values, other.layout, other.values)


def _leaves(nodes: list[Node], path: tuple[str, ...] = ()) -> Iterator[tuple[object, ...]]:
    for node in nodes:
        if node.children:
            yield from _leaves(node.children, (*path, node.name))
        else:
            yield *path, node.name, node.start, node.end
