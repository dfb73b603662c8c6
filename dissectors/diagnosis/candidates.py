"""Candidates: the proposals for a frame with their structs, and the layouts that result from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from dissectors.diagnosis.checkpoints import StructLocation, Trace
from dissectors.diagnosis.frame_layouts import FrameLayouts
from dissectors.diagnosis.proposals import FIELD_KINDS, Proposal, body_proposals, header_proposals
from dissectors.diagnosis.struct_edits import Proposals, struct_proposals
from dissectors.diagnosis.struct_reader import Array, compiled_struct, inner_of
from dissectors.edits import Edit
from dissectors.edits.lengths import SCOPES
from dissectors.wire.layout import Layout, cached_on_owner

#: The prior, in bits, of departures that servers are known for.
COMMON_PRIOR = 6.0

#: The largest prior, in bits, of an edit that is tried as a second one.
MAX_SECOND_COST = 7.5

#: The prior, in bits, of writing a field of the same name in another struct in the same wrong way.
REPETITION_PRIOR = 1.0

#: The `field` of edits of a whole frame, and of those that change all of header or body.
WHOLE_FRAME_FIELDS = (*SCOPES, "header")
WHOLE_PART_FIELDS = ("*", "header")


class Candidate(NamedTuple):
    """An edit, the resulting layout of the frame, and the prior of the edit in bits."""

    edit: Edit
    layout: Layout
    prior: float


#: (prior, proposal, struct that it edits or None for the whole frame).
Choice = tuple[float, Proposal, StructLocation | None]


def choices(pair: FrameLayouts, proposals: Proposals, max_prior: float = float("inf")) -> list[Choice]:
    """The proposals for a frame, the most common first.

    Args:
        pair: The layouts of the frame.
        proposals: The proposals for its message.
        max_prior: The largest prior to return, in bits.
    """
    frame_proposals = (*header_proposals(pair.header), *body_proposals(pair.body, proposals.version))
    result = whole_frame_choices(pair, frame_proposals, max_prior)
    for location in struct_locations(pair.body):
        result += [
            (proposal.prior, proposal, location) for proposal in proposals.of(location) if proposal.prior <= max_prior
        ]
    result.sort(key=_prior)
    return result


def second_choices(
    pair: FrameLayouts, proposals: Proposals, trace: Trace, right_ids: Set[int], first_edit: Proposal
) -> list[Choice]:
    """The proposals for a second edit, as far as reading with the first one got; the most common first.

    Args:
        pair: The layouts under the first edit.
        proposals: The proposals for the message.
        trace: The reading under the first edit.
        right_ids: The ids of the structs of the right layout.
        first_edit: The first edit.
    """
    result = whole_frame_choices(pair, header_proposals(pair.header), MAX_SECOND_COST)
    if (
        first_edit.field in WHOLE_FRAME_FIELDS or first_edit.prior > MAX_SECOND_COST
    ):  # otherwise the pair is tried in the other order
        undone_kinds = (
            () if first_edit.field == "header" else ("body_version", "generic_error_body")
        )  # these would undo the first edit
        remaining_proposals = (
            proposal for proposal in body_proposals(pair.body, proposals.version) if proposal.kind not in undone_kinds
        )
        result += whole_frame_choices(pair, remaining_proposals, MAX_SECOND_COST)
    # A body created for one search must not cache its locations, which refer to it: that cycle would need the
    # collector.
    for location in (
        struct_locations(pair.body) if first_edit.field in WHOLE_FRAME_FIELDS else _find_struct_locations(pair.body)
    ):
        if not (reach := trace.reach(location)):
            continue
        if first_edit.field in WHOLE_FRAME_FIELDS or id(location.layout) in right_ids:
            proposed = proposals.of(location, MAX_SECOND_COST)
        else:
            proposed = struct_proposals(
                pair.body.name, proposals.version, location.path, location.layout, MAX_SECOND_COST, reach
            )
        result += [(proposal.prior, proposal, location) for proposal in proposed if proposal.step < reach]
        if first_edit.kind in FIELD_KINDS and id(location.layout) in right_ids:
            result += [
                (REPETITION_PRIOR, proposal, location)
                for proposal in proposals.of(location)
                if _is_repetition(proposal, first_edit) and proposal.step < reach
            ]
    result.sort(key=_prior)
    return result


def _is_repetition(proposal: Proposal, first: Proposal) -> bool:
    """Whether a proposal writes a field of the same name in the same way, in another struct."""
    return (proposal.kind, proposal.arguments, proposal.name) == (
        first.kind,
        first.arguments,
        first.name,
    ) and proposal.field != first.field


def whole_frame_choices(pair: FrameLayouts, proposals: Iterable[Proposal], max_prior: float) -> list[Choice]:
    """The proposals for a whole frame that change it."""
    likely_proposals = (proposal for proposal in proposals if proposal.prior <= max_prior)
    return [(proposal.prior, proposal, None) for proposal in likely_proposals if pair.under(proposal).changes(pair)]


def _prior(choice: Choice) -> float:
    return choice[0]


def single_edits(frame: Layout, version: int, max_prior: float = float("inf")) -> tuple[Candidate, ...]:
    """All edits that change the layout of a frame, the most common first.

    Args:
        frame: The layout, as `dissectors.edits.frame_layout` makes it, of that version or with an edit applied.
        version: The version that its body should have.
        max_prior: The largest prior to return, in bits.
    """
    frame_choices = choices(FrameLayouts.of(frame), Proposals(frame.name, version), max_prior)
    edits = ((proposal.edit, prior) for prior, proposal, _ in frame_choices)
    return tuple(Candidate(edit, edit.apply(frame), prior) for edit, prior in edits)


@cached_on_owner
def struct_locations(body: Layout) -> list[StructLocation]:
    """The structs of a body that can be edited, cached: for bodies that are kept anyway."""
    return _find_struct_locations(body)


def _find_struct_locations(body: Layout) -> list[StructLocation]:
    return list(_nested_locations(StructLocation((), body, compiled_struct(body))))


def _nested_locations(location: StructLocation) -> Iterator[StructLocation]:
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
        nested = StructLocation(path, field.struct, inner.part, ups, location.above)
        if isinstance(inner, Array):
            nested = nested._replace(above=location.above | {inner}, array=inner)
        elif inner.null is None and location.array is not None and field.tag is None:
            nested = nested._replace(array=location.array, fixed=location.fixed + part.min_size - inner.part.min_size)
        yield from _nested_locations(nested)
