"""Readings that go on from the midst of another one end where, and cost what, those from the start do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dissectors.diagnosis.candidates import MAX_SECOND_COST, Choice, choices, second_edits, struct_locations
from dissectors.diagnosis.checkpoints import Trace
from dissectors.diagnosis.costs import FrameReading
from dissectors.diagnosis.diagnose import right_layout
from dissectors.diagnosis.elements import Elements
from dissectors.diagnosis.frame_layouts import FrameLayouts
from dissectors.diagnosis.misfit import Misfit
from dissectors.diagnosis.struct_edits import Proposals
from dissectors.diagnosis.struct_reader import read_whole
from dissectors.edits import Edit, parse
from dissectors.messages.message import read_response
from tests.dissectors.diagnosis.broken import Mutations
from tests.kproxy.frames import framed

ENOUGH = 1_000_000
ANY = float("inf")


def outcome(read: Callable[[], int], frame: FrameReading) -> tuple[int, float] | None:
    """Where a reading ended and what it cost, None if the bytes cannot be read."""
    try:
        end = read()
    except Misfit:
        return None
    return end, round(frame.cost, 6)


def from_the_start(data: bytes, pair: FrameLayouts) -> tuple[int, float] | None:
    frame = FrameReading(data, frozenset(), ENOUGH)
    frame.begin(ANY, ENOUGH)
    return outcome(lambda: read_whole(frame, *pair), frame)


def broken(seed: int) -> tuple[bytes, FrameLayouts, Proposals]:
    mutations = Mutations(seed)
    while (layout := right_layout(message := mutations.exchange()[1].message)) is None:
        pass  # damaged so that no schema has its version
    return message.frame, FrameLayouts.of(layout), Proposals(layout.name, message.version)


def traced(data: bytes, pair: FrameLayouts) -> tuple[FrameReading, Trace]:
    frame = FrameReading(data, frozenset(), ENOUGH)
    return frame, Trace(frame, pair, ANY, ENOUGH)


def resumed(frame: FrameReading, trace: Trace, choice: Choice) -> tuple[int, float] | None:
    _, proposal, location = choice
    assert location is not None
    return outcome(lambda: trace.resume(location, proposal, ANY), frame)


@pytest.mark.parametrize("seed", range(40))
def test_a_reading_goes_on_as_one_from_the_start(seed: int) -> None:
    data, pair, proposals = broken(seed)
    frame, trace = traced(data, pair)
    for choice in choices(pair, proposals):
        if choice[2] is not None:
            edit = choice[1].edit
            assert parse(edit.as_json()) == edit
            assert resumed(frame, trace, choice) == from_the_start(data, pair.changed(edit)), edit


@pytest.mark.parametrize("seed", range(100, 112))
def test_a_second_edit_is_read_so_too(seed: int) -> None:
    data, pair, proposals = broken(seed)
    known = frozenset[int]()
    for _, first, location in choices(pair, proposals)[::7]:
        base = pair.under(first) if location is None else pair.changed(first.edit)
        frame, trace = traced(data, base)
        for choice in second_edits(base, proposals, trace, known, first):
            if choice[2] is not None:
                edit = choice[1].edit
                assert resumed(frame, trace, choice) == from_the_start(data, base.changed(edit)), (first.edit, edit)


def test_an_array_that_fits_only_with_smaller_elements_is_read() -> None:
    """ListGroups v0: two groups without protocol_type."""
    data = framed(bytes.fromhex("00000001 0000 00000002 0001 61 0001 62"))
    layout = right_layout(read_response(data, 16, 0))
    assert layout is not None
    pair, proposals = FrameLayouts.of(layout), Proposals(layout.name, 0)
    frame, trace = traced(data, pair)
    found = {choice[1].edit: resumed(frame, trace, choice) for choice in choices(pair, proposals) if choice[2]}
    fitting = found[Edit.of("field_missing", "groups[].protocol_type", where=1)]
    assert fitting is not None
    assert fitting[0] == len(data)


@pytest.mark.parametrize("seed", range(300, 306))
def test_no_edit_of_a_struct_that_is_not_reached_fits(seed: int) -> None:
    data, pair, proposals = broken(seed)
    for _, first, _ in choices(pair, proposals)[::7]:
        base = pair.changed(first.edit)
        _, trace = traced(data, base)
        for location in struct_locations(base.body):
            if trace.end is None and not trace.reach(location):
                for each in Proposals(proposals.name, proposals.version).of(location, MAX_SECOND_COST):
                    assert from_the_start(data, base.changed(each.edit)) is None, (first.edit, each.edit)


@pytest.mark.parametrize("seed", range(200, 230))
def test_an_edit_of_one_element_is_read_so_too(seed: int) -> None:
    data, pair, proposals = broken(seed)
    frame = FrameReading(data, frozenset(), ENOUGH)
    elements = Elements(frame, pair, ENOUGH)
    for element in elements.suspects(4):
        for _, proposal, location in choices(pair, proposals):
            if location is None or not (element.has(location) or element.encloses(location)):
                continue
            found = outcome(lambda: elements.resume(element, location, proposal, ANY), frame)  # noqa: B023
            path = proposal.field
            for index in element.indexes:
                path = path.replace("[]", f"[{index}]", 1)
            assert found == from_the_start(data, pair.changed(replace(proposal.edit, field=path))), path


def test_what_a_second_edit_would_undo_is_not_tried() -> None:
    data, pair, proposals = broken(3)
    body = next(each for _, each, _ in choices(pair, proposals) if each.kind == "body_version")
    base = pair.under(body)
    _, trace = traced(data, base)
    kinds = {each.kind for _, each, _ in second_edits(base, proposals, trace, frozenset(), body)}
    assert not kinds & {"body_version", "generic_error_body"}
