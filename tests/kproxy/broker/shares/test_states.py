from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kproxy.broker.errors import Error
from kproxy.broker.shares.state_requests import combine_batches
from kproxy.broker.shares.states import StateBatch
from tests.kproxy.broker.data_requests import topic_id
from tests.kproxy.broker.socket_client import SocketClient, broker_client

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def batches(*rows: tuple[int, int, int, int]) -> list[StateBatch]:
    return [StateBatch(*row) for row in rows]


@pytest.mark.parametrize(
    ("rows", "start", "expected"),
    [
        ([], 0, []),
        ([(0, 9, 0, 1)], 4, [(4, 9, 0, 1)]),
        ([(0, 3, 0, 1)], 4, []),
        ([(0, 4, 0, 1), (5, 9, 0, 1)], 0, [(0, 9, 0, 1)]),
        ([(0, 4, 0, 1), (6, 9, 0, 1)], 0, [(0, 4, 0, 1), (6, 9, 0, 1)]),
        ([(0, 9, 0, 1), (3, 5, 2, 1)], 0, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 9, 2, 2), (3, 5, 4, 1)], 0, [(0, 9, 2, 2)]),
        ([(0, 5, 0, 1), (3, 9, 0, 2)], 0, [(0, 2, 0, 1), (3, 9, 0, 2)]),
        ([(0, 5, 0, 2), (3, 9, 0, 1)], 0, [(0, 5, 0, 2), (6, 9, 0, 1)]),
        ([(0, 5, 0, 1), (0, 5, 0, 1)], 0, [(0, 5, 0, 1)]),
    ],
)
def test_combines_overlapping_batches(
    rows: list[tuple[int, int, int, int]], start: int, expected: list[tuple[int, int, int, int]]
) -> None:
    assert combine_batches(batches(*rows), start) == batches(*expected)
    assert combine_batches(batches(*reversed(rows)), start) == batches(*expected)


async def request_state(
    client: SocketClient, name: str, version: int = 0, group: str = "g", **fields: Any
) -> Mapping[str, Any]:
    """Send the request for partition 0 of ``t``, or for the partition in `fields`; return the partition's response."""
    partition = {"partition": 0} | fields
    topics = [{"topic_id": topic_id(client, "t"), "partitions": [partition]}]
    response = await client(f"{name}ShareGroupState", version, {"group_id": group, "topics": topics})
    return dict(response["results"][0]["partitions"][0])


async def test_share_group_state_is_initialized_written_read_and_deleted() -> None:
    async with broker_client(topics={"t": 1}) as client:
        assert (await request_state(client, "Read"))["error_code"] == Error.INVALID_REQUEST
        assert (await request_state(client, "Write"))["error_code"] == Error.INVALID_REQUEST
        assert (await request_state(client, "Initialize", state_epoch=3, start_offset=5))["error_code"] == 0
        assert (await request_state(client, "Read"))["start_offset"] == 5
        batch_rows = [{"first_offset": 6, "last_offset": 7, "delivery_state": ACKNOWLEDGED, "delivery_count": 1}]
        fields = {"state_epoch": 3, "leader_epoch": 0, "start_offset": -1, "state_batches": batch_rows}
        assert (await request_state(client, "Write", 1, **fields, delivery_complete_count=2))["error_code"] == 0
        state = await request_state(client, "Read")
        assert (state["state_epoch"], state["start_offset"], state["state_batches"]) == (3, 5, batch_rows)
        topics = [{"topic_id": topic_id(client, "t"), "partitions": [{"partition": 0}]}]
        for version in (0, 1):
            summary = await client("ReadShareGroupStateSummary", version, {"group_id": "g", "topics": topics})
            [partition] = summary["results"][0]["partitions"]
            assert partition["start_offset"] == 5
        assert partition["delivery_complete_count"] == 2
        assert (await request_state(client, "Delete"))["error_code"] == 0
        assert (await request_state(client, "Delete"))["error_code"] == 0
        assert (await request_state(client, "Read"))["error_code"] == Error.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "fields", "error"),
    [
        ("Initialize", {"partition": -1}, Error.INVALID_REQUEST),
        ("Initialize", {"partition": 7}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ("Initialize", {"state_epoch": 2}, Error.FENCED_STATE_EPOCH),
        ("Initialize", {"state_epoch": 4, "start_offset": -2}, Error.INVALID_REQUEST),
        ("Write", {"state_epoch": 2, "leader_epoch": -1}, Error.FENCED_STATE_EPOCH),
        ("Write", {"state_epoch": 3, "leader_epoch": 4}, Error.FENCED_LEADER_EPOCH),
        ("Read", {"leader_epoch": 4}, Error.FENCED_LEADER_EPOCH),
        ("Read", {"partition": 7}, Error.INVALID_REQUEST),
        ("Delete", {"partition": 7}, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ("Delete", {"partition": -7}, Error.INVALID_REQUEST),
    ],
)
async def test_rejects_invalid_state_requests(name: str, fields: dict[str, Any], error: Error) -> None:
    async with broker_client(topics={"t": 1}) as client:
        await request_state(client, "Initialize", state_epoch=3, start_offset=5)
        assert (await request_state(client, "Read", leader_epoch=5))["error_code"] == 0
        assert (await request_state(client, name, **fields))["error_code"] == error


@pytest.mark.parametrize(
    "batch",
    [
        (5, 4, AVAILABLE, 1),
        (-1, 4, AVAILABLE, 1),
        (1, 4, 1, 1),
        (1, 4, 77, 1),
        (1, 4, ARCHIVED, -1),
        (1, 4, AVAILABLE, 2**15 - 1),
        (1, 2**63 - 1, ACKNOWLEDGED, 1),
    ],
)
async def test_rejects_invalid_state_batches(batch: tuple[int, int, int, int]) -> None:
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    async with broker_client(topics={"t": 1}) as client:
        await request_state(client, "Initialize", state_epoch=3, start_offset=0)
        batch_rows = [dict(zip(names, batch, strict=True))]
        refused = await request_state(client, "Write", 1, state_epoch=3, state_batches=batch_rows)
        assert refused["error_code"] == Error.INVALID_REQUEST


async def test_empty_requests_have_empty_results() -> None:
    async with broker_client(topics={"t": 1}) as client:
        topics_without_partitions = [{"topic_id": topic_id(client, "t"), "partitions": []}]
        for name in ("Initialize", "Read", "Write", "Delete"):
            for body in ({"group_id": "g", "topics": topics_without_partitions}, {"group_id": "", "topics": []}):
                assert (await client(f"{name}ShareGroupState", 0, body))["results"] == []
