"""CreatePartitions: adds partitions to topics.

Leaves out: timeouts (partitions are created immediately).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import require
from kproxy.broker.apis.create_topics import check_replicas
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics


@api("CreatePartitions")
async def create_partitions(request: Request) -> Body:
    """Return the result for each topic."""
    counts = Counter(topic["name"] for topic in request.body["topics"])
    results = []
    async for entry in paced(request.body["topics"]):
        try:
            if counts[entry["name"]] > 1:
                raise ApiError(Error.INVALID_REQUEST, "Duplicate topic name.")
            _add_partitions(request, entry)
            results.append({"name": entry["name"]})
        except ApiError as api_error:
            results.append({"name": entry["name"], "error_code": api_error.error, "error_message": api_error.message})
    return {"results": results}


def _add_partitions(request: Request, entry: Mapping[str, Any]) -> None:
    topics = request.cluster.part(Topics)
    require(request, "ALTER", "TOPIC", entry["name"])
    topic = topics.by_name(entry["name"])
    if topic is None:
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)
    old_count, count, assignments = len(topic.partitions), entry["count"], entry["assignments"]
    if count == old_count:
        raise ApiError(Error.INVALID_PARTITIONS, f"Topic already has {old_count} partition(s).")
    if count < old_count:
        raise ApiError(
            Error.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {old_count} partition(s); {count} would not be an increase.",
        )
    topics.check_request(count - old_count)
    if assignments is None:
        replicas = topics.choose_replicas(count - old_count, len(topic.partitions[0].replicas), first=old_count)
    else:
        if len(assignments) != count - old_count:
            raise ApiError(
                Error.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {count - old_count} additional partition(s), "
                f"but only {len(assignments)} assignment(s) were specified.",
            )
        replicas = [list(assignment["broker_ids"]) for assignment in assignments]
        check_replicas(request, replicas)
    if not request.body["validate_only"]:
        topics.add_partitions(topic, replicas)
