"""Ranking: the readings that fit, those of the same bytes as one, the likeliest first, with a confidence each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dissectors.diagnosis.evidence import TEMPER
from dissectors.diagnosis.relations import contradictions
from dissectors.diagnosis.search import Found
from dissectors.edits import LOOSE, Edit
from dissectors.layout import Layout
from dissectors.node import Node
from dissectors.walk import walk

#: Readings that are looked at once more, and the size of a frame up to which that is worth its time.
FINALISTS = 16
SMALL = 32 << 10

#: Bits behind the best up to which a reading is a finalist.
CLOSE = 16.0


@dataclass(slots=True)
class Ranked:
    """A reading: its edit (None is the right layout), other edits that read every byte the same, its confidence."""

    edit: Edit | None
    layout: Layout
    cost: float
    prior: float
    also: list[Edit] = field(default_factory=list)
    confidence: float = 0.0


def rank(frame: bytes, found: list[Found]) -> list[Ranked]:
    """The readings with the evidence of a second look, the likeliest first.

    Args:
        frame: Length prefix included.
        found: As `dissectors.diagnosis.search.Search.run` gives them.
    """
    close = [each for each in found if each.cost <= found[0].cost + CLOSE][:FINALISTS]
    rest = [Ranked(each.edit, each.layout, each.cost, each.prior) for each in found[len(close) :]]
    if len(frame) > SMALL:
        ranked = [Ranked(each.edit, each.layout, each.cost, each.prior) for each in close]
    else:
        ranked = _second_look(frame, close)
    ranked = sorted(ranked, key=lambda each: each.cost) + rest
    weights = [2.0 ** ((ranked[0].cost - each.cost) * TEMPER) for each in ranked]
    for each, weight in zip(ranked, weights, strict=True):
        each.confidence = weight / sum(weights)
    return ranked


def _second_look(frame: bytes, close: list[Found]) -> list[Ranked]:
    same: dict[tuple[object, ...], Ranked] = {}
    for each in close:
        walked = walk(each.layout, frame, 4)
        body = walked.values.get("body") or {}
        loose = each.edit is not None and each.edit.kind in LOOSE
        reads = (loose, *_leaves(walked.nodes))
        known = same.get(reads)
        if known is None:
            same[reads] = Ranked(each.edit, each.layout, each.cost + contradictions(body), each.prior)
        elif each.edit is not None and known.edit is not None:
            known.also.append(each.edit)
    return list(same.values())


def _leaves(nodes: list[Node]) -> Iterator[tuple[str, int, int]]:
    for node in nodes:
        if node.children:
            yield from _leaves(node.children)
        else:
            yield node.name, node.start, node.end
