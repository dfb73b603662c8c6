"""Produce: appends batches to the logs of partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.layout import NULL_UUID
from dissectors.records.batch import HEADER
from kproxy.broker.errors import Error
from kproxy.broker.log.log import Batch
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics


@api("Produce")
def produce(request: Request) -> Body:
    """Append, and answer unless acks is 0."""
    topics = request.cluster.part(Topics)
    responses = []
    for data in request.body["topic_data"]:
        by_id = topics.with_id(data.get("topic_id", NULL_UUID))
        name = by_id.name if by_id else data.get("name", "")
        partitions = [_append(topics, name, each) for each in data["partition_data"]]
        responses.append({"name": name, "topic_id": data.get("topic_id"), "partition_responses": partitions})
    return {"responses": responses} if request.body["acks"] else None


def _append(topics: Topics, name: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    index = data["index"]
    partition = topics.partition(name, index)
    if partition is None:
        return {"index": index, "error_code": Error.UNKNOWN_TOPIC_OR_PARTITION, "base_offset": -1}
    log, raw = partition.log, bytearray(data["records"])
    base = log.end_offset
    header = HEADER.unpack_from(raw)
    raw[:8] = base.to_bytes(8, "big")
    log.append(Batch(base, base + header[6], header[8], bytes(raw)))
    return {"index": index, "base_offset": base, "log_start_offset": log.start_offset}
