"""Code shared by the requests with which brokers read and write the states of share partitions.

Source: Kafka's ShareCoordinatorService, ShareCoordinatorShard, PersisterStateBatchCombiner.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body
from kproxy.broker.request import Request
from kproxy.broker.shares.states import ShareState, ShareStates, StateBatch
from kproxy.broker.topics import Topics

#: Takes a partition and its entry in a request; returns its result, without the index.
PartitionHandler: TypeAlias = Callable[[TopicIdPartition, Mapping[str, Any]], Mapping[str, Any]]


async def handle_partitions(request: Request, handle: PartitionHandler) -> Body:
    """Return the result for each listed partition; an empty body if the group or a list is empty."""
    topics = request.body["topics"]
    if not request.body["group_id"] or not all(topic["partitions"] for topic in topics):
        return {}
    return {
        "results": [
            {
                "topic_id": topic["topic_id"],
                "partitions": [
                    _handle_partition(request, handle, topic["topic_id"], partition)
                    async for partition in paced(topic["partitions"])
                ],
            }
            async for topic in paced(topics)
        ]
    }


def _handle_partition(
    request: Request, handle: PartitionHandler, topic_id: str, entry: Mapping[str, Any]
) -> Mapping[str, Any]:
    index = entry["partition"]
    try:
        require(request, "CLUSTER_ACTION", "CLUSTER")
        if index < 0:
            raise ApiError(Error.INVALID_REQUEST, "The partition id cannot be a negative number.")
        return {"partition": index, **handle((topic_id, index), entry)}
    except ApiError as api_error:
        return {"partition": index, "error_code": api_error.error, "error_message": api_error.message}


def find_state(request: Request, topic_id_partition: TopicIdPartition, operation: str) -> ShareState:
    """Return the state that a request names; raise `ApiError` with INVALID_REQUEST if it does not exist."""
    state = request.cluster.part(ShareStates).get(request.body["group_id"], topic_id_partition)
    if state is None:
        raise ApiError(Error.INVALID_REQUEST, f"{operation} operation on uninitialized share partition not allowed.")
    return state


def check_state_request(
    request: Request, topic_id_partition: TopicIdPartition, state: ShareState | None, entry: Mapping[str, Any]
) -> None:
    """Raise `ApiError` unless the request's epochs, if given, are current, and the partition exists.

    Raises:
        ApiError: FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.
    """
    if state is not None:
        if -1 != entry.get("leader_epoch", -1) < state.leader_epoch:
            raise ApiError(Error.FENCED_LEADER_EPOCH)
        if -1 != entry.get("state_epoch", -1) < state.state_epoch:
            raise ApiError(Error.FENCED_STATE_EPOCH)
    topic = request.cluster.part(Topics).by_id(topic_id_partition[0])
    if topic is None or topic_id_partition[1] >= len(topic.partitions):
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)


def combine_batches(batches: Iterable[StateBatch], start: int) -> list[StateBatch]:
    """Resolve overlaps between batches: for each record, the highest delivery count wins, then the highest state.

    Args:
        batches: The batches, in any order.
        start: Records before it are dropped.
    """
    remaining = sorted(batch._replace(first=max(batch.first, start)) for batch in batches if batch.last >= start)
    boundaries = sorted({batch.first for batch in remaining} | {batch.last + 1 for batch in remaining})
    state_batches: list[StateBatch] = []
    candidates: list[tuple[int, int, int]] = []  # best first: negated deliveries and state, and the last offset
    position = 0
    for first, next_boundary in itertools.pairwise(boundaries):
        while position < len(remaining) and remaining[position].first == first:
            current = remaining[position]
            heapq.heappush(candidates, (-current.deliveries, -current.state, current.last))
            position += 1
        while candidates and candidates[0][2] < first:
            heapq.heappop(candidates)
        if not candidates:
            continue
        batch = StateBatch(first, next_boundary - 1, -candidates[0][1], -candidates[0][0])
        if state_batches and state_batches[-1][1:] == (first - 1, batch.state, batch.deliveries):
            state_batches[-1] = state_batches[-1]._replace(last=batch.last)
        else:
            state_batches.append(batch)
    return state_batches
