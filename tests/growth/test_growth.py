"""The work for a frame grows no faster than the frame, whatever in it grows."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from dissectors import schemas
from tests.growth.frames import Growing, growing
from tests.growth.growth import MOST_GROWTH, growth, short_searches

#: What has grown too fast, and more of the kind.
_CASES = [
    Growing("ApiVersions", 3, True, ("_tags",), "zeros", "right"),
    Growing("ListOffsets", 11, True, ("topics", "partitions", "_tags"), "zeros", "right"),
    Growing("Metadata", 12, False, ("topics", "_tags"), "zeros", "cut"),
    Growing("JoinGroup", 0, True, ("protocols",), "empty", "right"),
    Growing("JoinGroup", 0, True, ("protocols",), "short subscription", "right"),
    Growing("JoinGroup", 9, False, ("members",), "short subscription", "right"),
    Growing("SyncGroup", 5, True, ("assignments",), "short subscription", "right"),
    Growing("Fetch", 12, False, ("responses", "partitions"), "garbage", "right"),
    Growing("Fetch", 4, False, ("responses",), "damaged batches", "right"),
    Growing("Fetch", 12, False, ("responses", "partitions", "records"), "batches", "right"),
    Growing("Produce", 9, True, ("topic_data",), "garbage", "right"),
    Growing("Produce", 3, True, ("topic_data", "partition_data", "records"), "headers", "right"),
    Growing("AddPartitionsToTxn", 5, False, ("results_by_transaction", "topic_results"), "zeros", "right"),
    Growing("DescribeGroups", 5, False, ("groups", "members"), "subscription", "wedged"),
]

_PARTS = 16


@pytest.fixture(autouse=True)
def _short() -> Iterator[None]:
    with short_searches():
        yield


@pytest.mark.parametrize("one", _CASES, ids=str)
def test_twice_the_elements_are_twice_the_work(one: Growing) -> None:
    assert growth(one) < MOST_GROWTH


@pytest.mark.wide
@pytest.mark.parametrize("part", range(_PARTS))
def test_no_message_of_any_version_takes_more_than_its_share(part: int) -> None:
    """One way to grow for each direction of each version, chosen at random; `python -m tests.growth` runs all."""
    random = Random(35)
    chosen = [
        random.choice([*growing(api.name, version, is_request=is_request)])
        for api in schemas.apis()
        for version in api.versions
        for is_request in (True, False)
        if [*growing(api.name, version, is_request=is_request)]
    ]
    assert len(chosen) > 600
    assert [(str(one), factor) for one in chosen[part::_PARTS] if (factor := growth(one)) > MOST_GROWTH] == []
