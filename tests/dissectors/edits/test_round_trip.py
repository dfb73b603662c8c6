"""Round trip: the walk over an edited layout reads back what the edit writes.

Exceptions: `truncated` and `trailing_bytes` (no layout describes them), `record_encoding` and `embedded_layout` (the
layout around them is right), `tag_order` and `null_as_empty` (the right layout reads them) and `body_of_api` (the
search tries it last). All other kinds are candidates.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from dissectors.diagnosis.candidates import Candidate, single_edits
from dissectors.edits import KINDS, frame_layout, write
from dissectors.messages.message import api_layouts
from dissectors.wire.decode import decode
from dissectors.wire.layout import Field, Layout
from dissectors.wire.walk import walk
from tests.strategies import API_VERSIONS, values

NOT_CANDIDATES = {
    "truncated", "trailing_bytes", "record_encoding", "embedded_layout", "tag_order", "null_as_empty", "body_of_api",
}  # fmt: skip


@functools.lru_cache(maxsize=16)
def kafka_frame_layout(key: int, version: int, is_request: bool) -> Layout:
    layouts = api_layouts(key, version)
    assert layouts is not None
    if is_request:
        return frame_layout(layouts.request_header, layouts.request)
    return frame_layout(layouts.response_header, layouts.response)


@functools.lru_cache(maxsize=16)
def candidates_by_kind(key: int, version: int, is_request: bool) -> dict[str, list[Candidate]]:
    """Return the candidates for a frame, grouped by the kind of their edit."""
    by_kind: dict[str, list[Candidate]] = {}
    for candidate in single_edits(kafka_frame_layout(key, version, is_request), version):
        by_kind.setdefault(candidate.edit.kind, []).append(candidate)
    return by_kind


def readable_values(shape: Layout, given_values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that can be read back, given that some fields write null or empty whatever their value."""
    expected = {
        field.name: _readable_value(field, given_values[field.name])
        for field in (*shape.fields, *shape.tagged)
        if field.name in given_values
    }
    return expected | ({"_tags": given_values["_tags"]} if "_tags" in given_values and shape.flexible else {})


def _readable_value(field: Field, value: Any) -> Any:
    if field.writes == "null":
        value = None
    if value is None:
        # With lengths that are one too small, null and empty are written as the same byte.
        return ([] if field.array else "" if field.type == "string" else b"") if field.length == "uvarint-1" else None
    if field.struct is None:
        return value
    return (
        [readable_values(field.struct, element) for element in value]
        if field.array
        else readable_values(field.struct, value)
    )


def check_round_trip(data: st.DataObject, kafka_layout: Layout, candidate: Candidate) -> None:
    edit, written = candidate.edit, candidate.layout
    note(f"{kafka_layout.name}: {edit}")
    given_values = data.draw(values(written))
    frame = write(edit, kafka_layout, given_values)
    expected = readable_values(written, given_values)
    if edit.kind == "duplicated_prefix" and edit.field == "size":
        expected["header"]["size"] = len(frame) - 8
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    walked = walk(edit.apply(kafka_layout), frame, 4)
    assert walked.error is None
    assert walked.end == len(frame)
    assert walked.values == expected
    assert {odd.kind for odd in walked.decode_warnings} <= {"implausible"}
    assert decode(written, frame, 4)[:3] == (expected, len(frame), None)


@pytest.mark.slow
@given(st.data(), st.sampled_from(API_VERSIONS), st.booleans())
def test_candidate_layout_reads_what_it_writes(
    data: st.DataObject, api_version: tuple[int, int], is_request: bool
) -> None:
    kafka_layout = kafka_frame_layout(*api_version, is_request)
    check_round_trip(data, kafka_layout, data.draw(st.sampled_from(single_edits(kafka_layout, api_version[1]))))


#: Messages that together have all kinds of fields.
VARIED_MESSAGES = [
    (1, 12, False),
    (0, 9, False),
    (3, 0, True),
    (3, 12, False),
    (11, 9, False),
    (18, 0, False),
    (0, 13, True),
]


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - NOT_CANDIDATES))
def test_every_edit_kind_round_trips(kind: str) -> None:
    @settings(max_examples=10, database=None)
    @given(st.data(), st.sampled_from([message for message in VARIED_MESSAGES if kind in candidates_by_kind(*message)]))
    def check_kind(data: st.DataObject, message: tuple[int, int, bool]) -> None:
        check_round_trip(
            data, kafka_frame_layout(*message), data.draw(st.sampled_from(candidates_by_kind(*message)[kind]))
        )

    check_kind()


@settings(max_examples=10)
@given(st.data(), st.sampled_from(VARIED_MESSAGES))
def test_two_combined_edits_round_trip(data: st.DataObject, message: tuple[int, int, bool]) -> None:
    kafka_layout = kafka_frame_layout(*message)
    first = data.draw(
        st.sampled_from([candidate for kind in candidates_by_kind(*message).values() for candidate in kind])
    )
    assume(first.edit.field != "size")
    second = data.draw(st.sampled_from(single_edits(first.layout, message[1])))
    assume(second.edit.field != "size")
    check_round_trip(data, kafka_layout, Candidate(first.edit.followed_by(second.edit), second.layout, 0.0))
