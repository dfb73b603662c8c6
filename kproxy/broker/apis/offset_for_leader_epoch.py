"""OffsetForLeaderEpoch: returns the end offset of a leader epoch, to detect log truncation (KIP-320).

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
from kproxy.broker.topics import Topics


@api("OffsetForLeaderEpoch")
async def offset_for_leader_epoch(request: Request) -> Body:
    """Return the end offset for each partition."""
    return {
        "topics": [
            {
                "topic": topic["topic"],
                "partitions": [
                    {"partition": partition["partition"]} | _end_offset_result(request, topic["topic"], partition)
                    async for partition in paced(topic["partitions"])
                ],
            }
            async for topic in paced(request.body["topics"])
        ]
    }


def _end_offset_result(request: Request, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    topics = request.cluster.part(Topics)
    try:
        require(request, "DESCRIBE", "TOPIC", name)
        topic = topics.find(name, None)
        partition = topics.find_led_partition(
            request.node, topic, entry["partition"], entry.get("current_leader_epoch", -1)
        )
    except ApiError as api_error:
        return {"error_code": api_error.error, "leader_epoch": -1, "end_offset": -1}
    epoch, end = partition.log.epochs.end(entry["leader_epoch"], partition.log.end_offset)
    return {"error_code": Error.NONE, "leader_epoch": epoch, "end_offset": end}
