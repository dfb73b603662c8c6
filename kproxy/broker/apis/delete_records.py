"""DeleteRecords: moves the start offset of partitions' logs.

Leaves out: nothing. All replicas share one log, so there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log import Log
from kproxy.broker.log.settings import settings
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics

_HIGH_WATERMARK: Final = -1


@api("DeleteRecords")
async def delete_records(request: Request) -> Body:
    """Return the new start offset of each partition."""
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": partition["partition_index"]}
                    | _deletion_result(request, topic["name"], partition)
                    async for partition in paced(topic["partitions"])
                ],
            }
            async for topic in paced(request.body["topics"])
        ]
    }


def _deletion_result(request: Request, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    try:
        log = _delete_records(request, name, entry)
    except ApiError as api_error:
        return {"low_watermark": -1, "error_code": api_error.error}
    return {"low_watermark": log.start_offset, "error_code": Error.NONE}


def _delete_records(request: Request, name: str, entry: Mapping[str, Any]) -> Log:
    """Delete the records; return the partition's log."""
    topics, offset = request.cluster.part(Topics), entry["offset"]
    require(request, "DELETE", "TOPIC", name)
    topic = topics.find(name, None)
    if topic.internal:
        raise ApiError(Error.INVALID_TOPIC_EXCEPTION)
    log = topics.find_led_partition(request.node, topic, entry["partition_index"]).log
    if not settings(request.cluster, name).deleted:
        raise ApiError(Error.POLICY_VIOLATION)
    if offset == _HIGH_WATERMARK:
        offset = log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        raise ApiError(Error.OFFSET_OUT_OF_RANGE)
    if offset > log.start_offset:
        log.delete_before(offset)
    return log
