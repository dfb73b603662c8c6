"""Fetch: batches from the logs of partitions that this broker leads, or the wait for them."""

from __future__ import annotations

from typing import Any

from dissectors.layout import NULL_UUID
from kproxy.broker.changes import any_of
from kproxy.broker.errors import Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics


@api("Fetch")
async def fetch(request: Request) -> Body:
    """Answer at once if there is enough, else wait."""
    body, topics = request.body, request.cluster.part(Topics)
    read, size = _read(request, topics)
    if size < body["min_bytes"]:
        logs = [topics.partition(each["topic"], part["partition"]).log for each in read for part in each["_"]]
        await any_of([log.changed for log in logs], body["max_wait_ms"])
        read, _ = _read(request, topics)
    return {"responses": read}


def _read(request: Request, topics: Topics) -> tuple[list[dict[str, Any]], int]:
    found, size = [], 0
    for asked in request.body["topics"]:
        topic_id = asked.get("topic_id", NULL_UUID)
        by_id = topics.with_id(topic_id)
        name = by_id.name if by_id else asked.get("topic", "")
        partitions = []
        for part in asked["partitions"]:
            log = topics.partition(name, part["partition"]).log
            data = log.read(part["fetch_offset"], part["partition_max_bytes"])
            size += len(data)
            partitions.append(
                {
                    "partition_index": part["partition"],
                    "high_watermark": log.high_watermark,
                    "last_stable_offset": log.high_watermark,
                    "log_start_offset": 0,
                    "records": data,
                    "error_code": Error.NONE,
                }
            )
        found.append({"topic": name, "topic_id": topic_id, "partitions": partitions, "_": asked["partitions"]})
    return found, size
