"""DescribeQuorum: returns the voters of the metadata quorum: only the controller in this process.

Leaves out: observers and lag, which a single process does not have.
"""

from __future__ import annotations

from typing import Final

from kproxy.broker.access import CLUSTER, is_allowed
from kproxy.broker.errors import Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request

_TOPIC: Final = "__cluster_metadata"


@api("DescribeQuorum")
def describe_quorum(request: Request) -> Body:
    """Return the state of the metadata partition; other partitions are unknown."""
    cluster = request.cluster
    if not is_allowed(request, "DESCRIBE", "CLUSTER", CLUSTER):
        return {"error_code": Error.CLUSTER_AUTHORIZATION_FAILED, "error_message": None}
    requested = [
        (topic["topic_name"], [partition["partition_index"] for partition in topic["partitions"]])
        for topic in request.body["topics"]
    ]
    if requested != [(_TOPIC, [0])]:
        error = {
            "error_code": Error.UNKNOWN_TOPIC_OR_PARTITION,
            "error_message": "This server does not host this topic-partition.",
        }
        return {
            "topics": [
                {"topic_name": name, "partitions": [{"partition_index": index, **error} for index in indexes]}
                for name, indexes in requested
            ],
        }
    controller, now_ms = cluster.controller, cluster.clock.now()
    end_offset = len(cluster.nodes)
    voter = {"replica_id": controller.id, "log_end_offset": end_offset}
    partition = {
        "error_message": None,
        "leader_id": controller.id,
        "leader_epoch": 1,
        "high_watermark": end_offset,
        "current_voters": [{**voter, "last_fetch_timestamp": now_ms, "last_caught_up_timestamp": now_ms}],
    }
    listener = {"name": "CONTROLLER", **request.endpoint(controller)}
    return {
        "error_message": None,
        "topics": [{"topic_name": _TOPIC, "partitions": [partition]}],
        "nodes": [{"node_id": controller.id, "listeners": [listener]}],
    }
