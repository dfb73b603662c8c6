"""DescribeTopicPartitions (KIP-966): returns the partitions of topics, in pages.

Topics are sorted by name; if none is requested, all are returned. A response has at most ``response_partition_limit``
partitions, and never more than 2000; ``next_cursor`` is the start of the next page.

Leaves out: eligible leader replicas, which are always empty (every replica is in sync).
"""

from __future__ import annotations

from typing import Any, Final

from kproxy.broker.access import authorized_operations, is_allowed
from kproxy.broker.apis.metadata import describe_topic
from kproxy.broker.errors import Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics

_MAX_PARTITIONS: Final = 2000  # max.request.partition.size.limit


@api("DescribeTopicPartitions")
async def describe_topic_partitions(request: Request) -> Body:
    """Return one page of topics and their partitions."""
    body, topics = request.body, request.cluster.part(Topics)
    cursor = body["cursor"]
    if cursor is not None and cursor["partition_index"] < 0:
        return {"topics": [{"error_code": Error.INVALID_REQUEST, "name": topic["name"]} for topic in body["topics"]]}
    names = sorted({topic["name"] for topic in body["topics"]} or {topic.name for topic in topics})
    partitions_left = min(max(body["response_partition_limit"], 1), _MAX_PARTITIONS)
    rows: list[dict[str, Any]] = []
    async for name in paced(names):
        if cursor is not None and name < cursor["topic_name"]:
            continue
        first_index = cursor["partition_index"] if cursor is not None and name == cursor["topic_name"] else 0
        if partitions_left == 0:
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": 0}}
        topic = topics.by_name(name)
        if not is_allowed(request, "DESCRIBE", "TOPIC", name):
            if body["topics"]:
                rows.append({"error_code": Error.TOPIC_AUTHORIZATION_FAILED, "name": name})
            continue
        if topic is None:
            rows.append({"error_code": Error.UNKNOWN_TOPIC_OR_PARTITION, "name": name})
            continue
        partitions = describe_topic(topic)["partitions"][first_index:]
        page = partitions[:partitions_left]
        partitions_left -= len(page)
        rows.append(
            {
                "name": name,
                "topic_id": topic.id,
                "is_internal": topic.internal,
                "partitions": [
                    {**partition, "eligible_leader_replicas": [], "last_known_elr": []} for partition in page
                ],
                "topic_authorized_operations": authorized_operations(request, "TOPIC", name),
            }
        )
        if len(page) < len(partitions):
            return {"topics": rows, "next_cursor": {"topic_name": name, "partition_index": first_index + len(page)}}
    return {"topics": rows, "next_cursor": None}
