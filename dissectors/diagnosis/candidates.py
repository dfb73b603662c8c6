"""The candidates for a frame: proposals, the structs that they edit, and the resulting layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from dissectors.diagnosis.checkpoints import StructLocation, Trace
from dissectors.diagnosis.frame_layouts import FrameLayouts
from dissectors.diagnosis.proposals import FIELD_KINDS, Proposal, body_proposals, header_proposals
from dissectors.diagnosis.struct_edits import Proposals, struct_proposals
from dissectors.diagnosis.struct_reader import Array, compiled_struct, inner_reader
from dissectors.edits import Edit
from dissectors.edits.lengths import SCOPES
from dissectors.wire.layout import Layout, cached_on_owner

#: The prior, in bits, of deviations that are known from real servers.
COMMON_PRIOR = 6.0

#: The largest prior, in bits, of an edit that is tried as a second one.
MAX_SECOND_COST = 7.5

#: The prior, in bits, of making the same error in a field of the same name in another struct.
REPETITION_PRIOR = 1.0

#: The `field` of edits that change the whole frame, and of edits that change the whole header or body.
WHOLE_FRAME_FIELDS = (*SCOPES, "header")
WHOLE_PART_FIELDS = ("*", "header")


class Candidate(NamedTuple):
    """An edit, the resulting layout of the frame, and the prior of the edit in bits."""

    edit: Edit
    layout: Layout
    prior: float


#: (prior, proposal, the struct that it edits or None for the whole frame).
Choice = tuple[float, Proposal, StructLocation | None]


def choices(layouts: FrameLayouts, proposals: Proposals, max_prior: float = float("inf")) -> list[Choice]:
    """Return the proposals for a frame, most common first.

    Args:
        layouts: The layouts of the frame.
        proposals: The proposals for its message.
        max_prior: The largest prior to return, in bits.
    """
    frame_proposals = (*header_proposals(layouts.header), *body_proposals(layouts.body, proposals.version))
    result = whole_frame_choices(layouts, frame_proposals, max_prior)
    for location in struct_locations(layouts.body):
        result += [
            (proposal.prior, proposal, location)
            for proposal in proposals.for_location(location)
            if proposal.prior <= max_prior
        ]
    result.sort(key=_prior)
    return result


def second_choices(
    layouts: FrameLayouts, proposals: Proposals, trace: Trace, kafka_struct_ids: Set[int], first_edit: Proposal
) -> list[Choice]:
    """Return the proposals for a second edit within the bytes that were read under the first one, most common first.

    Args:
        layouts: The layouts under the first edit.
        proposals: The proposals for the message.
        trace: The reading under the first edit.
        kafka_struct_ids: The `id()` of each struct of Kafka's layout.
        first_edit: The first edit.
    """
    result = whole_frame_choices(layouts, header_proposals(layouts.header), MAX_SECOND_COST)
    if (
        first_edit.field in WHOLE_FRAME_FIELDS or first_edit.prior > MAX_SECOND_COST
    ):  # otherwise the two edits are tried in the other order
        undone_kinds = (
            () if first_edit.field == "header" else ("body_version", "generic_error_body")
        )  # they would undo the first edit
        remaining_proposals = (
            proposal
            for proposal in body_proposals(layouts.body, proposals.version)
            if proposal.kind not in undone_kinds
        )
        result += whole_frame_choices(layouts, remaining_proposals, MAX_SECOND_COST)
    # A body created for one search must not cache its locations, which refer to it: that cycle would need the
    # collector.
    for location in (
        struct_locations(layouts.body)
        if first_edit.field in WHOLE_FRAME_FIELDS
        else _find_struct_locations(layouts.body)
    ):
        if not (reach := trace.reach(location)):
            continue
        if first_edit.field in WHOLE_FRAME_FIELDS or id(location.layout) in kafka_struct_ids:
            proposed = proposals.for_location(location, MAX_SECOND_COST)
        else:
            proposed = struct_proposals(
                layouts.body.name, proposals.version, location.path, location.layout, MAX_SECOND_COST, reach
            )
        result += [(proposal.prior, proposal, location) for proposal in proposed if proposal.step < reach]
        if first_edit.kind in FIELD_KINDS and id(location.layout) in kafka_struct_ids:
            result += [
                (REPETITION_PRIOR, proposal, location)
                for proposal in proposals.for_location(location)
                if _is_repetition(proposal, first_edit) and proposal.step < reach
            ]
    result.sort(key=_prior)
    return result


def _is_repetition(proposal: Proposal, first_edit: Proposal) -> bool:
    """Whether a proposal repeats the first edit on a field of the same name in another struct."""
    return (proposal.kind, proposal.arguments, proposal.name) == (
        first_edit.kind,
        first_edit.arguments,
        first_edit.name,
    ) and proposal.field != first_edit.field


def whole_frame_choices(layouts: FrameLayouts, proposals: Iterable[Proposal], max_prior: float) -> list[Choice]:
    """Return those of the proposals for the whole frame that would change it."""
    likely_proposals = (proposal for proposal in proposals if proposal.prior <= max_prior)
    return [
        (proposal.prior, proposal, None)
        for proposal in likely_proposals
        if layouts.with_proposal(proposal).differs_from(layouts)
    ]


def _prior(choice: Choice) -> float:
    return choice[0]


def single_edits(frame: Layout, version: int, max_prior: float = float("inf")) -> tuple[Candidate, ...]:
    """Return all edits that change the layout of a frame, most common first.

    Args:
        frame: The layout from `dissectors.edits.frame_layout`, for this version or with an edit applied.
        version: The version that the body should have.
        max_prior: The largest prior to return, in bits.
    """
    frame_choices = choices(FrameLayouts.of(frame), Proposals(frame.name, version), max_prior)
    edits = ((proposal.edit, prior) for prior, proposal, _ in frame_choices)
    return tuple(Candidate(edit, edit.apply(frame), prior) for edit, prior in edits)


@cached_on_owner
def struct_locations(body: Layout) -> list[StructLocation]:
    """Return the structs of a body that can be edited. The result is cached: call it only for bodies that are kept."""
    return _find_struct_locations(body)


def _find_struct_locations(body: Layout) -> list[StructLocation]:
    return list(_nested_locations(StructLocation((), body, compiled_struct(body))))


def _nested_locations(location: StructLocation) -> Iterator[StructLocation]:
    yield location
    layout, compiled = location.layout, location.compiled
    names = [field.name for field in (*layout.fields, *layout.tagged)]
    for index, field in enumerate((*layout.fields, *layout.tagged)):
        inner = inner_reader(field)
        if field.struct is None or inner is None or field.deviating_element is not None or names.count(field.name) > 1:
            continue
        path, enclosing_steps = (
            (*location.path, field.name + "[]" * field.array),
            (*location.enclosing_steps, (compiled, min(index, len(layout.fields)))),
        )
        nested = StructLocation(path, field.struct, inner.compiled, enclosing_steps, location.enclosing_arrays)
        if isinstance(inner, Array):
            nested = nested._replace(enclosing_arrays=location.enclosing_arrays | {inner}, array=inner)
        elif inner.null_marker is None and location.array is not None and field.tag is None:
            fixed = location.fixed + compiled.min_size - inner.compiled.min_size
            nested = nested._replace(array=location.array, fixed=fixed)
        yield from _nested_locations(nested)
