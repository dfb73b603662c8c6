"""Ranking: the readings that fit, those of the same bytes as one, the likeliest first, with a confidence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dissectors.diagnosis.best_explanation import leaves_the_same
from dissectors.diagnosis.relation_costs import agreement
from dissectors.diagnosis.search import Found
from dissectors.diagnosis.value_costs import TEMPER
from dissectors.edits import LOOSE, Edit
from dissectors.wire.layout import Layout
from dissectors.wire.node import Node
from dissectors.wire.walk import walk

#: Readings that are looked at once more, and the size of a frame up to which that is worth its time.
FINALISTS = 16
SMALL = 32 << 10

#: Bits behind the best up to which a reading is a finalist.
CLOSE = 16.0

#: Frames in which it is worth the time to find out what other edits leave the same bytes, and how many bits less likely
#: than another one an edit may be that stands for it too.
NAMED = 4 << 10
STANDS_FOR = 4.0


@dataclass(slots=True)
class Ranked:
    """A reading: its edit (None is the right layout), other edits that read every byte the same, its confidence."""

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


def rank(frame: bytes, found: list[Found], right: Layout) -> list[Ranked]:
    """The readings with the evidence of a second look: first the one to name, then the likeliest first.

    Args:
        frame: Length prefix included.
        found: As `dissectors.diagnosis.search.Search.run` gives them.
        right: The layout that the frame should have.
    """
    ranked = [Ranked(each.edit, each.layout, each.cost, each.prior) for each in found]
    close = [each for each in ranked if each.cost <= ranked[0].cost + CLOSE][:FINALISTS]
    rest = ranked[len(close) :]
    if len(frame) <= SMALL:
        close = _second_look(frame, close)
    ranked = sorted(close, key=lambda each: each.cost) + rest
    weights = [2.0 ** ((ranked[0].cost - each.cost) * TEMPER) for each in ranked]
    for each, weight in zip(ranked, weights, strict=True):
        each.confidence = weight / sum(weights)
    if len(frame) <= NAMED:
        first, shares = _first(ranked, right), [each.confidence for each in ranked]
        ranked = [first, *(each for each in ranked if each is not first)]
        for each, share in zip(ranked, shares, strict=True):  # the one that is named is no less likely than its rivals
            each.confidence = share
    return ranked


def _second_look(frame: bytes, close: list[Ranked]) -> list[Ranked]:
    """The readings with what relates their fields; those that read every byte the same are one."""
    same: dict[tuple[object, ...], Ranked] = {}
    for each in close:
        walked = walk(each.layout, frame, 4)
        known = same.setdefault((each.loose, *_leaves(walked.nodes)), each)
        if known is each:
            each.values = walked.values
            each.cost += agreement(walked.values.get("header") or {}, walked.values.get("body") or {})
        elif each.edit is not None and known.edit is not None:
            known.also.append(each.edit)
    return list(same.values())


def _first(ranked: list[Ranked], right: Layout) -> Ranked:
    """Of those that are nearly as likely as the best the reading whose edit stands for most of what is likely.

    An edit stands for another one if it leaves the same bytes for what that one reads: no error code stands for a
    throttle time as int16 before an error code of 0. The other way round it is chance: the code could be any.
    """
    near = [each for each in ranked if each.cost <= ranked[0].cost + STANDS_FOR]
    others = ranked[:FINALISTS]
    return max(near, key=lambda one: sum(each.confidence for each in others if _stands_for(right, one, each)))


def _stands_for(right: Layout, one: Ranked, other: Ranked) -> bool:
    if one is other:
        return True
    if None in (one.edit, other.edit) or one.loose or other.loose or one.values is None or other.values is None:
        return False
    return leaves_the_same(right, one.layout, one.values, other.values)


def _leaves(nodes: list[Node], path: tuple[str, ...] = ()) -> Iterator[tuple[object, ...]]:
    for node in nodes:
        if node.children:
            yield from _leaves(node.children, (*path, node.name))
        else:
            yield *path, node.name, node.start, node.end
