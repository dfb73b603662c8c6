"""Candidates: the proposals for a frame with their structs, and the layouts that result from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from dissectors.diagnosis.checkpoints import StructLocation, Trace
from dissectors.diagnosis.frame_layouts import FrameLayouts
from dissectors.diagnosis.proposals import OF_FIELD, Proposal, of_body, of_header
from dissectors.diagnosis.struct_edits import Proposals, of_struct
from dissectors.diagnosis.struct_reader import Array, compiled_struct, inner_of
from dissectors.edits import Edit
from dissectors.edits.lengths import SCOPES
from dissectors.wire.layout import Layout, cached_on_owner

#: The prior, in bits, of departures that servers are known for.
COMMON = 6.0

#: The largest prior, in bits, of an edit that is tried as a second one.
MAX_SECOND_COST = 7.5

#: The prior, in bits, of writing a field of the same name in another struct in the same wrong way.
AGAIN = 1.0

#: The `field` of edits of a whole frame, and of those that change all of header or body.
WHOLE = (*SCOPES, "header")
ALL = ("*", "header")


class Candidate(NamedTuple):
    """An edit, the resulting layout of the frame, and the prior of the edit in bits."""

    edit: Edit
    layout: Layout
    prior: float


#: (prior, proposal, struct that it edits or None for the whole frame).
Choice = tuple[float, Proposal, StructLocation | None]


def choices(pair: FrameLayouts, proposals: Proposals, most: float = float("inf")) -> list[Choice]:
    """The proposals for a frame, the most common first.

    Args:
        pair: The layouts of the frame.
        proposals: The proposals for its message.
        most: The largest prior to return, in bits.
    """
    whole = (*of_header(pair.header), *of_body(pair.body, proposals.version))
    candidates = whole_frame_choices(pair, whole, most)
    for location in struct_locations(pair.body):
        candidates += [
            (proposal.prior, proposal, location) for proposal in proposals.of(location) if proposal.prior <= most
        ]
    candidates.sort(key=_prior)
    return candidates


def second_edits(
    pair: FrameLayouts, proposals: Proposals, trace: Trace, right_ids: Set[int], on: Proposal
) -> list[Choice]:
    """The proposals for a second edit, as far as reading with the first one got; the most common first.

    Args:
        pair: The layouts under the first edit.
        proposals: The proposals for the message.
        trace: The reading under the first edit.
        right_ids: The ids of the structs of the right layout.
        on: The first edit.
    """
    candidates = whole_frame_choices(pair, of_header(pair.header), MAX_SECOND_COST)
    if on.field in WHOLE or on.prior > MAX_SECOND_COST:  # otherwise the pair is tried in the other order
        lost = () if on.field == "header" else ("body_version", "generic_error_body")  # these would undo the first edit
        proposed = (proposal for proposal in of_body(pair.body, proposals.version) if proposal.kind not in lost)
        candidates += whole_frame_choices(pair, proposed, MAX_SECOND_COST)
    # A body created for one search must not cache its locations, which refer to it: that cycle would need the
    # collector.
    for location in struct_locations(pair.body) if on.field in WHOLE else _struct_locations(pair.body):
        if not (reach := trace.reach(location)):
            continue
        if on.field in WHOLE or id(location.layout) in right_ids:
            local = proposals.of(location, MAX_SECOND_COST)
        else:
            local = of_struct(pair.body.name, proposals.version, location.path, location.layout, MAX_SECOND_COST, reach)
        candidates += [(proposal.prior, proposal, location) for proposal in local if proposal.step < reach]
        if on.kind in OF_FIELD and id(location.layout) in right_ids:
            candidates += [
                (AGAIN, proposal, location)
                for proposal in proposals.of(location)
                if _repeats(proposal, on) and proposal.step < reach
            ]
    candidates.sort(key=_prior)
    return candidates


def _repeats(proposal: Proposal, first: Proposal) -> bool:
    """Whether a proposal writes a field of the same name in the same way, in another struct."""
    return (proposal.kind, proposal.arguments, proposal.name) == (
        first.kind,
        first.arguments,
        first.name,
    ) and proposal.field != first.field


def whole_frame_choices(pair: FrameLayouts, proposed: Iterable[Proposal], most: float) -> list[Choice]:
    """The proposals for a whole frame that change it."""
    proposals = (proposal for proposal in proposed if proposal.prior <= most)
    return [(proposal.prior, proposal, None) for proposal in proposals if pair.under(proposal).changes(pair)]


def _prior(choice: Choice) -> float:
    return choice[0]


def single_edits(frame: Layout, version: int, most: float = float("inf")) -> tuple[Candidate, ...]:
    """All edits that change the layout of a frame, the most common first.

    Args:
        frame: The layout, as `dissectors.edits.frame_layout` makes it, of that version or with an edit applied.
        version: The version that its body should have.
        most: The largest prior to return, in bits.
    """
    found = choices(FrameLayouts.of(frame), Proposals(frame.name, version), most)
    edits = ((proposal.edit, prior) for prior, proposal, _ in found)
    return tuple(Candidate(edit, edit.apply(frame), prior) for edit, prior in edits)


@cached_on_owner
def struct_locations(body: Layout) -> list[StructLocation]:
    """The structs of a body that can be edited, cached: for bodies that are kept anyway."""
    return _struct_locations(body)


def _struct_locations(body: Layout) -> list[StructLocation]:
    return list(_below(StructLocation((), body, compiled_struct(body))))


def _below(location: StructLocation) -> Iterator[StructLocation]:
    yield location
    layout, part = location.layout, location.part
    names = [field.name for field in (*layout.fields, *layout.tagged)]
    for index, field in enumerate((*layout.fields, *layout.tagged)):
        inner = inner_of(field)
        if field.struct is None or inner is None or field.exception is not None or names.count(field.name) > 1:
            continue
        path, ups = (
            (*location.path, field.name + "[]" * field.array),
            (*location.ups, (part, min(index, len(layout.fields)))),
        )
        below = StructLocation(path, field.struct, inner.part, ups, location.above)
        if isinstance(inner, Array):
            below = below._replace(above=location.above | {inner}, array=inner)
        elif inner.null is None and location.array is not None and field.tag is None:
            below = below._replace(array=location.array, fixed=location.fixed + part.min_size - inner.part.min_size)
        yield from _below(below)
