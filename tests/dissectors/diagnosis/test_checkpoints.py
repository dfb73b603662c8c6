"""Readings that go on from the midst of another one end where, and cost what, those from the start do."""

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
from tests.kproxy.frames import framed

ENOUGH = 1_000_000
ANY = float("inf")


def outcome(read: Callable[[], int], frame: FrameReading) -> tuple[int, float] | None:
    """The end and the cost of a reading, None if the bytes cannot be read."""
    try:
        end = read()
    except Misfit:
        return None
    return end, round(frame.cost, 6)


def read_from_the_start(data: bytes, pair: FrameLayouts) -> tuple[int, float] | None:
    frame = FrameReading(data, frozenset(), ENOUGH)
    frame.begin(ANY, ENOUGH)
    return outcome(lambda: read_frame(frame, *pair), frame)


def broken_reading(seed: int) -> tuple[bytes, FrameLayouts, Proposals]:
    mutations = Mutations(seed)
    while (layout := right_layout(message := mutations.exchange()[1].message)) is None:
        pass  # damaged so that no schema has its version
    return message.frame, FrameLayouts.of(layout), Proposals(layout.name, message.version)


def start_trace(data: bytes, pair: FrameLayouts) -> tuple[FrameReading, Trace]:
    frame = FrameReading(data, frozenset(), ENOUGH)
    return frame, Trace(frame, pair, ANY, ENOUGH)


def resume(frame: FrameReading, trace: Trace, choice: Choice) -> tuple[int, float] | None:
    _, proposal, location = choice
    assert location is not None
    return outcome(lambda: trace.resume(location, proposal, ANY), frame)


@pytest.mark.parametrize("seed", range(40))
def test_resumed_reading_gives_the_result_of_one_from_the_start(seed: int) -> None:
    data, pair, proposals = broken_reading(seed)
    frame, trace = start_trace(data, pair)
    for choice in choices(pair, proposals):
        if choice[2] is not None:
            edit = choice[1].edit
            assert parse(edit.as_json()) == edit
            assert resume(frame, trace, choice) == read_from_the_start(data, pair.changed(edit)), edit


@pytest.mark.parametrize("seed", range(100, 112))
def test_second_edit_is_resumed_with_the_same_result(seed: int) -> None:
    data, pair, proposals = broken_reading(seed)
    known = frozenset[int]()
    for _, first, location in choices(pair, proposals)[::7]:
        base = pair.under(first) if location is None else pair.changed(first.edit)
        frame, trace = start_trace(data, base)
        for choice in second_choices(base, proposals, trace, known, first):
            if choice[2] is not None:
                edit = choice[1].edit
                assert resume(frame, trace, choice) == read_from_the_start(data, base.changed(edit)), (first.edit, edit)


def test_array_that_fits_only_with_smaller_elements_is_read() -> None:
    """ListGroups v0: two groups without protocol_type."""
    data = framed(bytes.fromhex("00000001 0000 00000002 0001 61 0001 62"))
    layout = right_layout(read_response(data, 16, 0))
    assert layout is not None
    pair, proposals = FrameLayouts.of(layout), Proposals(layout.name, 0)
    frame, trace = start_trace(data, pair)
    outcomes = {choice[1].edit: resume(frame, trace, choice) for choice in choices(pair, proposals) if choice[2]}
    fitting_outcome = outcomes[Edit.of("field_missing", "groups[].protocol_type", where=1)]
    assert fitting_outcome is not None
    assert fitting_outcome[0] == len(data)


@pytest.mark.parametrize("seed", range(300, 306))
def test_edit_of_an_unreachable_struct_never_fits(seed: int) -> None:
    data, pair, proposals = broken_reading(seed)
    for _, first, _ in choices(pair, proposals)[::7]:
        base = pair.changed(first.edit)
        _, trace = start_trace(data, base)
        for location in struct_locations(base.body):
            if trace.end is None and not trace.reach(location):
                for proposal in Proposals(proposals.name, proposals.version).of(location, MAX_SECOND_COST):
                    assert read_from_the_start(data, base.changed(proposal.edit)) is None, (first.edit, proposal.edit)


@pytest.mark.parametrize("seed", range(200, 230))
def test_edit_of_one_element_is_resumed_with_the_same_result(seed: int) -> None:
    data, pair, proposals = broken_reading(seed)
    frame = FrameReading(data, frozenset(), ENOUGH)
    elements = Elements(frame, pair, ENOUGH)
    for element in elements.suspects(4):
        for _, proposal, location in choices(pair, proposals):
            if location is None or not (element.has(location) or element.encloses(location)):
                continue
            resumed_outcome = outcome(lambda: elements.resume(element, location, proposal, ANY), frame)  # noqa: B023
            path = proposal.field
            for index in element.indexes:
                path = path.replace("[]", f"[{index}]", 1)
            assert resumed_outcome == read_from_the_start(data, pair.changed(replace(proposal.edit, field=path))), path


def test_second_edits_never_undo_the_first() -> None:
    data, pair, proposals = broken_reading(3)
    first = next(proposal for _, proposal, _ in choices(pair, proposals) if proposal.kind == "body_version")
    base = pair.under(first)
    _, trace = start_trace(data, base)
    kinds = {proposal.kind for _, proposal, _ in second_choices(base, proposals, trace, frozenset(), first)}
    assert not kinds & {"body_version", "generic_error_body"}
