"""ListOffsets: thin."""

from __future__ import annotations

from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics


@api("ListOffsets")
def list_offsets(request: Request) -> Body:
    topics = request.cluster.part(Topics)
    return {
        "topics": [
            {
                "name": t["name"],
                "partitions": [
                    {
                        "partition_index": p["partition_index"],
                        "timestamp": -1,
                        "leader_epoch": 0,
                        "offset": 0
                        if p["timestamp"] == -2
                        else topics.partition(t["name"], p["partition_index"]).log.end_offset,
                    }
                    for p in t["partitions"]
                ],
            }
            for t in request.body["topics"]
        ]
    }
