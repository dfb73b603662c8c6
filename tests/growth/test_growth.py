"""The work for a frame grows no faster than the frame, whichever part of it grows."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from random import Random

import pytest

from dissectors import schemas
from dissectors.collector import PROGRAM_THRESHOLD
from tests.cpu_time import cpu_seconds
from tests.growth.frames import GrowingFrame, growing_frames
from tests.growth.growth import MAX_GROWTH, growth, short_searches
from tests.growth.work import explain_exchange, inspect

#: Cases in which the work once grew too fast, and similar cases.
_CASES = [
    GrowingFrame("ApiVersions", 3, True, ("_tags",), "zeros", "right"),
    GrowingFrame("ListOffsets", 11, True, ("topics", "partitions", "_tags"), "zeros", "right"),
    GrowingFrame("Metadata", 12, False, ("topics", "_tags"), "zeros", "cut"),
    GrowingFrame("JoinGroup", 0, True, ("protocols",), "empty", "right"),
    GrowingFrame("JoinGroup", 0, True, ("protocols",), "short subscription", "right"),
    GrowingFrame("JoinGroup", 9, False, ("members",), "short subscription", "right"),
    GrowingFrame("SyncGroup", 5, True, ("assignments",), "short subscription", "right"),
    GrowingFrame("Fetch", 12, False, ("responses", "partitions"), "garbage", "right"),
    GrowingFrame("Fetch", 4, False, ("responses",), "damaged batches", "right"),
    GrowingFrame("Fetch", 12, False, ("responses", "partitions", "records"), "batches", "right"),
    GrowingFrame("Produce", 9, True, ("topic_data",), "garbage", "right"),
    GrowingFrame("Produce", 3, True, ("topic_data", "partition_data", "records"), "headers", "right"),
    GrowingFrame("AddPartitionsToTxn", 5, False, ("results_by_transaction", "topic_results"), "zeros", "right"),
    GrowingFrame("DescribeGroups", 5, False, ("groups", "members"), "subscription", "wedged"),
]

_PARTS = 16


@pytest.fixture(autouse=True)
def _short_searches() -> Iterator[None]:
    with short_searches():
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    "growing",
    [
        pytest.param(case, id=str(case), marks=pytest.mark.wide if index % 3 else ())
        for index, case in enumerate(_CASES)
    ],
)
def test_doubling_a_part_at_most_doubles_the_work(growing: GrowingFrame) -> None:
    assert growth(growing) < MAX_GROWTH


@pytest.mark.wide
@pytest.mark.parametrize("part", range(_PARTS))
def test_work_of_random_messages_grows_no_faster_than_the_frame(part: int) -> None:
    """Try a random way to grow for both directions of every second version; `python -m tests.growth` tries all."""
    random = Random(35)
    selection = [
        random.choice([*growing_frames(api.name, version, is_request=is_request)])
        for api in schemas.apis()
        for version in api.versions
        for is_request in (True, False)
        if [*growing_frames(api.name, version, is_request=is_request)]
    ]
    assert len(selection) > 600
    selection = [growing_frame for index, growing_frame in enumerate(selection) if index // 2 % 2 == 0]
    assert [
        (str(growing_frame), factor)
        for growing_frame in selection[part::_PARTS]
        if (factor := growth(growing_frame)) > MAX_GROWTH
    ] == []


#: The costliest frames of 1 MB, by lines of Python per byte, each with its number of elements.
_LARGE = [
    (GrowingFrame("ListOffsets", 11, True, ("topics", "partitions", "_tags"), "zeros", "right"), 200_000),
    (
        GrowingFrame("FetchSnapshot", 1, False, ("topics", "partitions", "snapshot_id", "_tags"), "garbage", "cut"),
        200_000,
    ),
    (GrowingFrame("ListConfigResources", 1, True, ("resource_types",), "zeros", "cut"), 199_000),
    (GrowingFrame("ListOffsets", 11, True, ("topics",), "zeros", "cut"), 35_000),
    (GrowingFrame("Fetch", 12, False, ("responses", "partitions"), "garbage", "right"), 18_000),
    (GrowingFrame("Fetch", 12, False, ("responses", "partitions"), "damaged batches", "right"), 8_000),
    (GrowingFrame("Produce", 9, True, ("topic_data",), "damaged batches", "right"), 11_000),
    (GrowingFrame("DescribeGroups", 5, False, ("groups", "members"), "subscription", "right"), 8_000),
    (
        GrowingFrame("AddPartitionsToTxn", 5, False, ("results_by_transaction", "topic_results"), "zeros", "right"),
        50_000,
    ),
    (GrowingFrame("JoinGroup", 9, True, ("protocols",), "short subscription", "right"), 25_000),
]


@pytest.mark.wide
@pytest.mark.parametrize(("growing", "size"), _LARGE, ids=str)
def test_megabyte_frame_takes_less_than_eight_cpu_seconds(growing: GrowingFrame, size: int) -> None:
    """Such a frame takes two to four CPU seconds, depending on the caches of the processor."""
    exchange = growing.exchange(size)
    assert 0.15e6 < max(map(len, exchange)) < 1.4e6
    old_threshold = gc.get_threshold()
    gc.set_threshold(*PROGRAM_THRESHOLD)  # as the program sets it
    try:
        for work in (lambda: inspect(*exchange), lambda: explain_exchange(*exchange, is_request=growing.is_request)):
            assert cpu_seconds(work) < 8 or cpu_seconds(work) < 8
    finally:
        gc.set_threshold(*old_threshold)
