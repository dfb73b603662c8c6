"""AlterPartitionReassignments: assigns other replicas to partitions; they are in sync at once.

Leaves out: reassignments in progress, since they finish at once; so there is nothing to cancel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import CLUSTER, is_allowed
from kproxy.broker.apis.create_topics import check_replicas
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics


@api("AlterPartitionReassignments")
async def alter_partition_reassignments(request: Request) -> Body:
    """Return the result for each partition."""
    if not is_allowed(request, "ALTER", "CLUSTER", CLUSTER):
        return {"error_code": Error.CLUSTER_AUTHORIZATION_FAILED, "error_message": None}
    return {
        "error_message": None,
        "responses": [
            {
                "name": topic["name"],
                "partitions": [
                    _reassign(request, topic["name"], partition) async for partition in paced(topic["partitions"])
                ],
            }
            async for topic in paced(request.body["topics"])
        ],
    }


def _reassign(request: Request, name: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    index, replicas = entry["partition_index"], entry["replicas"]
    topics = request.cluster.part(Topics)
    try:
        partition = topics.partition(name, index)
        if partition is None:
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
        if replicas is None:
            raise ApiError(Error.NO_REASSIGNMENT_IN_PROGRESS)
        check_replicas(request, [replicas])
        if not request.body.get("allow_replication_factor_change", True) and len(replicas) != len(partition.replicas):
            raise ApiError(
                Error.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {len(partition.replicas)} to {len(replicas)}",
            )
        if not any(request.cluster.nodes[replica].up for replica in replicas):
            raise ApiError(Error.INVALID_REPLICA_ASSIGNMENT, "None of the replicas is up.")
    except ApiError as api_error:
        return {"partition_index": index, "error_code": api_error.error, "error_message": api_error.message}
    topics.replace(partition, replicas)
    return {"partition_index": index, "error_message": None}
