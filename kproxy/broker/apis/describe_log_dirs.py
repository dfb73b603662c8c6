"""DescribeLogDirs: returns the size in bytes of each partition on this broker.

Leaves out: the size of the disk, unless ``--data`` is used.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import CLUSTER, is_allowed
from kproxy.broker.errors import Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topic, Topics


@api("DescribeLogDirs")
async def describe_log_dirs(request: Request) -> Body:
    """Return the size of each requested partition (null requests all) that has a replica on this broker."""
    if not is_allowed(request, "DESCRIBE", "CLUSTER", CLUSTER):
        return {"error_code": Error.CLUSTER_AUTHORIZATION_FAILED}
    topics, requested_topics, data_dir = (
        request.cluster.part(Topics),
        request.body["topics"],
        request.cluster.options.data,
    )
    if requested_topics is None:
        partitions = [(topic, range(len(topic.partitions))) for topic in topics]
    else:
        requested = ((topics.by_name(topic["topic"]), topic["partitions"]) for topic in requested_topics)
        partitions = [(topic, indexes) for topic, indexes in requested if topic is not None]
    topic_sizes = [_partition_sizes(request, topic, indexes) async for topic, indexes in paced(partitions)]
    disk = shutil.disk_usage(data_dir) if data_dir is not None and data_dir.is_dir() else None
    return {
        "results": [
            {
                "log_dir": log_dir(request),
                "topics": [topic for topic in topic_sizes if topic["partitions"]],
                "total_bytes": disk.total if disk else -1,
                "usable_bytes": disk.free if disk else -1,
            }
        ]
    }


def log_dir(request: Request) -> str:
    """Return the path of the broker's only log directory."""
    return str(request.cluster.options.data or "memory")


def _partition_sizes(request: Request, topic: Topic, indexes: Any) -> Mapping[str, Any]:
    partitions = [topic.partitions[index] for index in indexes if 0 <= index < len(topic.partitions)]
    return {
        "name": topic.name,
        "partitions": [
            {"partition_index": partition.index, "partition_size": partition.log.size}
            for partition in partitions
            if request.node.id in partition.replicas
        ],
    }
