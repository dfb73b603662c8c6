"""Candidates: the proposals for a frame with the structs that they are of, and the layouts that they make of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from dissectors.diagnosis.checkpoints import StructLocation, Trace
from dissectors.diagnosis.frame_layouts import Pair
from dissectors.diagnosis.proposals import Proposal, of_body, of_header
from dissectors.diagnosis.struct_reader import Array, inner_of, part_of
from dissectors.diagnosis.structs import Proposals, of_struct
from dissectors.edits import Edit
from dissectors.wire.layout import Layout, cached_on_owner

#: The prior, in bits, of the departures that servers are known for.
COMMON = 6.0

#: The prior of the rarest edit that is tried as a second one.
SECOND_MOST = 7.5

#: The fields of an edit of a whole frame.
WHOLE = ("*", "header")


class Candidate(NamedTuple):
    """An edit, the layout that it makes of a frame's, and its prior in bits."""

    edit: Edit
    layout: Layout
    prior: float


#: A proposal with its prior, and the struct that it is of, None for the whole frame.
Choice = tuple[float, Proposal, StructLocation | None]


def choices(pair: Pair, proposals: Proposals, most: float = float("inf")) -> list[Choice]:
    """What is proposed for a frame, the most common first.

    Args:
        pair: Its layouts.
        proposals: Those for its message.
        most: The prior of the rarest that is wanted, in bits.
    """
    whole = (*of_header(pair.header), *of_body(pair.body, proposals.version))
    made = of_whole(pair, whole, most)
    for spot in spots_of(pair.body):
        made += [(each.prior, each, spot) for each in proposals.of(spot) if each.prior <= most]
    made.sort(key=_prior)
    return made


def seconds(pair: Pair, proposals: Proposals, trace: Trace, known: Set[int], on: Proposal) -> list[Choice]:
    """What is proposed on top of an edit, as far as the reading under that got, the most common first.

    Args:
        pair: The layouts that the edit makes.
        proposals: Those for its message.
        trace: The reading under them.
        known: The ids of the structs of the right layout.
        on: The edit.
    """
    made = of_whole(pair, of_header(pair.header), SECOND_MOST)
    if on.field in WHOLE or on.prior > SECOND_MOST:  # else it is tried the other way round
        lost = () if on.field == "header" else ("body_version", "generic_error_body")  # nothing of the first is left
        proposed = (each for each in of_body(pair.body, proposals.version) if each.kind not in lost)
        made += of_whole(pair, proposed, SECOND_MOST)
    # A body that is made for one search must not hold its structs, which hold it: only the collector would free both.
    for spot in spots_of(pair.body) if on.field in WHOLE else _spots(pair.body):
        if not (reach := trace.reach(spot)):
            continue
        if on.field in WHOLE or id(spot.layout) in known:
            local = proposals.of(spot, SECOND_MOST)
        else:
            local = of_struct(pair.body.name, proposals.version, spot.path, spot.layout, SECOND_MOST, reach)
        made += [(each.prior, each, spot) for each in local if each.step < reach]
    made.sort(key=_prior)
    return made


def of_whole(pair: Pair, proposed: Iterable[Proposal], most: float) -> list[Choice]:
    """Those proposals for a whole frame that change it."""
    found = (each for each in proposed if each.prior <= most)
    return [(each.prior, each, None) for each in found if pair.under(each).changes(pair)]


def _prior(choice: Choice) -> float:
    return choice[0]


def singles(frame: Layout, version: int, most: float = float("inf")) -> tuple[Candidate, ...]:
    """The edits of a frame's layout that make another one of it, the most common first.

    Args:
        frame: As `dissectors.edits.frame_layout` makes it, of that version or with an edit applied.
        version: The version that its body should have.
        most: The prior of the rarest that is wanted, in bits.
    """
    found = choices(Pair.of(frame), Proposals(frame.name, version), most)
    edits = ((proposal.edit, prior) for prior, proposal, _ in found)
    return tuple(Candidate(edit, edit.apply(frame), prior) for edit, prior in edits)


@cached_on_owner
def spots_of(body: Layout) -> list[StructLocation]:
    """The structs of a body that are read in one way alone, looked for once: for bodies that are kept anyway."""
    return _spots(body)


def _spots(body: Layout) -> list[StructLocation]:
    return list(_below(StructLocation((), body, part_of(body))))


def _below(spot: StructLocation) -> Iterator[StructLocation]:
    yield spot
    layout, part = spot.layout, spot.part
    names = [one.name for one in (*layout.fields, *layout.tagged)]
    for index, one in enumerate((*layout.fields, *layout.tagged)):
        inner = inner_of(one)
        if one.struct is None or inner is None or one.exception is not None or names.count(one.name) > 1:
            continue
        path, ups = (*spot.path, one.name + "[]" * one.array), (*spot.ups, (part, min(index, len(layout.fields))))
        below = StructLocation(path, one.struct, inner.part, ups, spot.above, spot.outer)
        if isinstance(inner, Array):
            below = below._replace(above=spot.above | {inner}, outer=spot.outer or inner, array=inner)
        elif inner.null is None and spot.array is not None and one.tag is None:
            below = below._replace(array=spot.array, fixed=spot.fixed + part.least - inner.part.least)
        yield from _below(below)
