"""Damaged, random and very large frames: no exception, sane numbers, bounded work."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dissectors.connections.events import Direction
from dissectors.diagnosis import Diagnosis, diagnose, search
from dissectors.diagnosis.candidates import single_edits
from dissectors.diagnosis.search import CREATION_WORK, Search
from dissectors.edits import Edit, parse
from dissectors.messages.message import Message, read_request, read_response
from kproxy.inspection.explain import explain
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import Detail
from tests.dissectors.diagnosis.broken import LARGE, Broken, Mutations, metadata
from tests.kproxy.frames import with_length_prefix
from tests.strategies import API_VERSIONS, damaged, requests, responses

#: How many fields may still be read once the work is used up: those of the current struct and of samples.
SLACK = 500


def work_left(broken: Broken) -> tuple[int, int]:
    """Return the work that a diagnosis left over and the lowest allowed value, which is negative."""
    searches: list[Search] = []

    class RecordedSearch(Search):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            searches.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "Search", RecordedSearch)
        message = broken.message
        check_diagnosis(message, diagnose(message))
    if not searches:
        return 0, 0  # no schema has that version
    [used_search] = searches
    return used_search._frame.work, -SLACK - CREATION_WORK * len(
        single_edits(used_search._layout, used_search._proposals.version)
    )


def check_diagnosis(message: Message, diagnosis: Diagnosis | None) -> None:
    if diagnosis is None:
        return
    size = len(message.frame)
    assert 0 <= diagnosis.confidence <= 1
    assert 0 <= diagnosis.start <= diagnosis.end <= size
    assert diagnosis.sentence.startswith(f"{message.api} v{message.version} ")
    assert "\n" not in diagnosis.sentence
    assert diagnosis.hint
    assert parse(diagnosis.edit.as_json()) == diagnosis.edit
    rival_confidences = [rival.confidence for rival in diagnosis.rivals]
    assert rival_confidences == sorted(rival_confidences, reverse=True)
    assert all(0 <= confidence <= diagnosis.confidence for confidence in rival_confidences)
    assert diagnosis.confidence + sum(rival_confidences) <= 1.01  # they are rounded
    assert diagnosis.edit not in diagnosis.also
    if diagnosis.surplus is not None:
        assert -4096 <= diagnosis.surplus < size


@settings(max_examples=15)
@given(damaged(requests()) | st.binary(min_size=12, max_size=64))
def test_damaged_request_gives_a_sane_diagnosis(frame: bytes) -> None:
    message = read_request(frame)
    note(frame.hex())
    check_diagnosis(message, diagnose(message))


@settings(max_examples=15)
@given(st.data())
def test_damaged_response_gives_a_sane_diagnosis(data: st.DataObject) -> None:
    original_frame, key, version = data.draw(responses())
    frame = with_length_prefix(data.draw(damaged(st.just(original_frame[4:]))))
    note(f"{key} v{version} {frame.hex()}")
    message = read_response(frame, key, version)
    check_diagnosis(message, diagnose(message))


@settings(max_examples=10)
@given(st.binary(max_size=48), st.sampled_from(API_VERSIONS))
def test_random_response_gives_a_sane_diagnosis(body: bytes, api_version: tuple[int, int]) -> None:
    message = read_response(with_length_prefix(body), *api_version)
    check_diagnosis(message, diagnose(message))


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(0, 1 << 30), st.sampled_from(Detail))
def test_inspector_accepts_broken_frames(seed: int, detail: Detail) -> None:
    mutations = Mutations(seed)
    inspector = Inspector("hostile", detail)
    for number in range(2):
        request, broken = mutations.exchange()
        note(f"{broken.key} v{broken.version} {request.hex()} {broken.frame.hex()}")
        inspector.open(number, "10.0.0.9:50000", "10.0.0.1:9092", at=number)
        inspector.receive_data(number, Direction.REQUEST, broken.frame if broken.is_request else request, at=number)
        if not broken.is_request:
            inspector.receive_data(number, Direction.RESPONSE, broken.frame, at=number)
        inspector.close(number, at=number)


@settings(max_examples=10)
@given(st.integers(0, 1 << 30))
def test_explain_accepts_a_single_broken_frame(seed: int) -> None:
    request, broken = Mutations(seed).exchange()
    note(f"{broken.key} v{broken.version} {request.hex()} {broken.frame.hex()}")
    answered_api = None if broken.is_request else (broken.key, broken.version)
    explained = explain(broken.frame, answered_request=answered_api, request=None if answered_api is None else request)
    check_diagnosis(explained.message, explained.message.diagnosis)
    for finding in explained.findings:
        problem = finding.problem
        if problem.start is not None and problem.end is not None:
            assert 0 <= problem.start <= problem.end <= len(broken.frame)


@pytest.mark.parametrize(
    ("frame", "key", "version"),
    [
        ("0000001a 00004e1e 8000000000030001bc2d00017fff62187fff05520001", 18, 0),  # ends inside an element
        ("0000000a 0007000047a0da28c69e", None, None),  # a header without a client id, and no body
        ("0000000a 0007000000000001ffff", None, None),
    ],
)
def test_frame_that_once_broke_the_diagnosis_gives_a_sane_one(frame: str, key: int | None, version: int | None) -> None:
    data = bytes.fromhex(frame)
    message = read_request(data) if key is None or version is None else read_response(data, key, version)
    check_diagnosis(message, diagnose(message))


@pytest.mark.parametrize("name", LARGE)
def test_work_for_a_large_frame_is_bounded(name: str) -> None:
    remaining, minimum = work_left(LARGE[name]())
    assert remaining >= minimum


@pytest.mark.slow
def test_work_for_very_many_strings_is_bounded() -> None:
    """DeleteTopics v4 with nearly as many names as are decoded from a frame, and no timeout after them."""
    count = 190_000
    compact_count = bytes([(count + 1) & 0x7F | 0x80, count + 1 >> 7 & 0x7F | 0x80, count + 1 >> 14])
    frame = with_length_prefix(bytes.fromhex("0014 0004 00000001 ffff 00") + compact_count + b"\x05abcd" * count)
    remaining, minimum = work_left(Broken(frame, 20, 4, True))
    assert remaining >= minimum


@settings(max_examples=8)
@given(st.integers(0, 1 << 30))
def test_work_for_a_small_frame_is_bounded(seed: int) -> None:
    remaining, minimum = work_left(Mutations(seed).exchange()[1])
    assert remaining >= minimum


@pytest.mark.parametrize("name", ["metadata_with_a_misplaced_throttle", "noise", "smallest_elements"])
def test_memory_for_a_large_frame_is_bounded(name: str) -> None:
    message = LARGE[name]().message
    diagnose(message)  # build the layouts and readers first
    tracemalloc.start()
    diagnose(message)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 << 20


@pytest.mark.parametrize("name", ["fetch_without_flexibility", "fetch_with_flexibility"])
def test_edit_visible_at_the_start_of_a_large_frame_is_named(name: str) -> None:
    diagnosis = diagnose(LARGE[name]().message)
    assert diagnosis is not None
    assert "flexibility" in {
        edit.kind for edit in (diagnosis.edit, *diagnosis.also, *(rival.edit for rival in diagnosis.rivals))
    }


@pytest.mark.parametrize(
    "edit",
    [
        Edit.of("field_moved", "throttle_time_ms", from_=0, to=4),
        Edit.of("truncated", "*", bytes=7),
        Edit.of("trailing_bytes", "*", bytes=3),
    ],
    ids=str,
)
def test_edit_visible_only_at_the_end_of_a_large_frame_is_named_or_uncertain(edit: Edit) -> None:
    diagnosis = diagnose(metadata(170, 3, edit).message)
    assert diagnosis is not None
    assert diagnosis.edit.kind == edit.kind or diagnosis.confidence < 0.9
