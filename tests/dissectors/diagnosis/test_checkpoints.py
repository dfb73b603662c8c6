"""A reading that resumes in the middle of another has the same end and the same cost as one from the start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dissectors.diagnosis.candidates import MAX_SECOND_COST, Choice, choices, second_choices, struct_locations
from dissectors.diagnosis.checkpoints import Trace
from dissectors.diagnosis.costs import FrameReading
from dissectors.diagnosis.diagnose import right_layout
from dissectors.diagnosis.elements import Elements
from dissectors.diagnosis.frame_layouts import FrameLayouts
from dissectors.diagnosis.misfit import Misfit
from dissectors.diagnosis.struct_edits import Proposals
from dissectors.diagnosis.struct_reader import read_frame
from dissectors.edits import Edit, parse
from dissectors.messages.message import read_response
from tests.dissectors.diagnosis.broken import Mutations
from tests.kproxy.frames import with_length_prefix

ENOUGH = 1_000_000
NO_LIMIT = float("inf")


def outcome(read: Callable[[], int], frame: FrameReading) -> tuple[int, float] | None:
    """Return the end and the cost of a reading, or None if the bytes cannot be read."""
    try:
        end = read()
    except Misfit:
        return None
    return end, round(frame.cost, 6)


def read_from_the_start(data: bytes, layouts: FrameLayouts) -> tuple[int, float] | None:
    frame = FrameReading(data, frozenset(), ENOUGH)
    frame.begin(NO_LIMIT, ENOUGH)
    return outcome(lambda: read_frame(frame, *layouts), frame)


def broken_reading(seed: int) -> tuple[bytes, FrameLayouts, Proposals]:
    mutations = Mutations(seed)
    while (layout := right_layout(message := mutations.exchange()[1].message)) is None:
        pass  # damaged so that no schema has its version
    return message.frame, FrameLayouts.of(layout), Proposals(layout.name, message.version)


def start_trace(data: bytes, layouts: FrameLayouts) -> tuple[FrameReading, Trace]:
    frame = FrameReading(data, frozenset(), ENOUGH)
    return frame, Trace(frame, layouts, NO_LIMIT, ENOUGH)


def resume(frame: FrameReading, trace: Trace, choice: Choice) -> tuple[int, float] | None:
    _, proposal, location = choice
    assert location is not None
    return outcome(lambda: trace.resume(location, proposal, NO_LIMIT), frame)


@pytest.mark.parametrize("seed", range(40))
def test_resumed_reading_equals_one_from_the_start(seed: int) -> None:
    data, layouts, proposals = broken_reading(seed)
    frame, trace = start_trace(data, layouts)
    for choice in choices(layouts, proposals):
        if choice[2] is not None:
            edit = choice[1].edit
            assert parse(edit.as_json()) == edit
            assert resume(frame, trace, choice) == read_from_the_start(data, layouts.with_edit(edit)), edit


@pytest.mark.parametrize("seed", range(100, 112))
def test_resumed_reading_with_a_second_edit_equals_one_from_the_start(seed: int) -> None:
    data, layouts, proposals = broken_reading(seed)
    known = frozenset[int]()
    for _, first, location in choices(layouts, proposals)[::7]:
        base = layouts.with_proposal(first) if location is None else layouts.with_edit(first.edit)
        frame, trace = start_trace(data, base)
        for choice in second_choices(base, proposals, trace, known, first):
            if choice[2] is not None:
                edit = choice[1].edit
                assert resume(frame, trace, choice) == read_from_the_start(data, base.with_edit(edit)), (
                    first.edit,
                    edit,
                )


def test_array_that_fits_only_with_smaller_elements_is_read() -> None:
    """ListGroups v0: two groups without protocol_type."""
    data = with_length_prefix(bytes.fromhex("00000001 0000 00000002 0001 61 0001 62"))
    layout = right_layout(read_response(data, 16, 0))
    assert layout is not None
    layouts, proposals = FrameLayouts.of(layout), Proposals(layout.name, 0)
    frame, trace = start_trace(data, layouts)
    outcomes = {choice[1].edit: resume(frame, trace, choice) for choice in choices(layouts, proposals) if choice[2]}
    fitting_outcome = outcomes[Edit.of("field_missing", "groups[].protocol_type", where=1)]
    assert fitting_outcome is not None
    assert fitting_outcome[0] == len(data)


@pytest.mark.parametrize("seed", range(300, 306))
def test_edit_of_an_unreachable_struct_never_fits(seed: int) -> None:
    data, layouts, proposals = broken_reading(seed)
    for _, first, _ in choices(layouts, proposals)[::7]:
        base = layouts.with_edit(first.edit)
        _, trace = start_trace(data, base)
        for location in struct_locations(base.body):
            if trace.end is None and not trace.reach(location):
                for proposal in Proposals(proposals.name, proposals.version).for_location(location, MAX_SECOND_COST):
                    assert read_from_the_start(data, base.with_edit(proposal.edit)) is None, (first.edit, proposal.edit)


@pytest.mark.parametrize("seed", range(200, 230))
def test_resumed_reading_with_an_element_edit_equals_one_from_the_start(seed: int) -> None:
    data, layouts, proposals = broken_reading(seed)
    frame = FrameReading(data, frozenset(), ENOUGH)
    elements = Elements(frame, layouts, ENOUGH)
    for element in elements.suspects(4):
        for _, proposal, location in choices(layouts, proposals):
            if location is None or not (element.has(location) or element.encloses(location)):
                continue
            resumed_outcome = outcome(lambda: elements.resume(element, location, proposal, NO_LIMIT), frame)  # noqa: B023
            field = proposal.field
            for index in element.indexes:
                field = field.replace("[]", f"[{index}]", 1)
            edit = replace(proposal.edit, field=field)
            assert resumed_outcome == read_from_the_start(data, layouts.with_edit(edit)), field


def test_second_edits_never_undo_the_first() -> None:
    data, layouts, proposals = broken_reading(3)
    first = next(proposal for _, proposal, _ in choices(layouts, proposals) if proposal.kind == "body_version")
    base = layouts.with_proposal(first)
    _, trace = start_trace(data, base)
    kinds = {proposal.kind for _, proposal, _ in second_choices(base, proposals, trace, frozenset(), first)}
    assert not kinds & {"body_version", "generic_error_body"}
