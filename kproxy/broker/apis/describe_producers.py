"""DescribeProducers: returns the active producers of partitions, and where their transactions began.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics, check_name


@api("DescribeProducers")
async def describe_producers(request: Request) -> Body:
    """Return the producers of each partition, in request order."""
    return {"topics": [await _describe_topic(request, entry) async for entry in paced(request.body["topics"])]}


async def _describe_topic(request: Request, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    name = entry["name"]
    try:
        check_name(name)
        require(request, "READ", "TOPIC", name)
        request.cluster.part(Topics).find(name, None)
    except ApiError as api_error:
        error = {"error_code": api_error.error, "error_message": api_error.message}
        return {
            "name": name,
            "partitions": [{"partition_index": index, **error} for index in entry["partition_indexes"]],
        }
    return {
        "name": name,
        "partitions": [_describe_partition(request, name, index) async for index in paced(entry["partition_indexes"])],
    }


def _describe_partition(request: Request, name: str, index: int) -> Mapping[str, Any]:
    partition = request.cluster.part(Topics).partition(name, index)
    if partition is None:
        return {"partition_index": index, "error_code": Error.UNKNOWN_TOPIC_OR_PARTITION}
    if request.node.id not in partition.replicas:
        return {"partition_index": index, "error_code": Error.NOT_LEADER_OR_FOLLOWER}
    return {
        "partition_index": index,
        "active_producers": [
            {
                "producer_id": producer.id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": -1 if producer.transaction_start is None else producer.transaction_start,
            }
            for producer in partition.log.producers
        ],
    }
