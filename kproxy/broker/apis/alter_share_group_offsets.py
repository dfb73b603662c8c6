"""AlterShareGroupOffsets: changes the start offsets of a share group without members; creates the group if needed.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.wire.layout import NULL_UUID
from kproxy.broker.access import require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.groups import Groups
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.group import ShareGroup
from kproxy.broker.shares.share_requests import check_enabled
from kproxy.broker.shares.states import ShareStates
from kproxy.broker.topics import Topics


@api("AlterShareGroupOffsets")
async def alter_share_group_offsets(request: Request) -> Body:
    """Return the results once the change is durable."""
    group_id = request.body["group_id"]
    try:
        check_enabled(request)
        require(request, "READ", "GROUP", group_id)
        if not group_id:
            raise ApiError(Error.INVALID_GROUP_ID)
        check_coordinator(request, group_id)
        groups = request.cluster.part(Groups)
        group = groups.share_group(group_id, create=True)
        group.check_deletion()
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.message}
    groups.store(group)
    topics = [await _alter_topic(request, group, topic) async for topic in paced(request.body["topics"])]
    return {"responses": topics}


async def _alter_topic(request: Request, group: ShareGroup, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    topic = request.cluster.part(Topics).by_name(entry["topic_name"])
    return {
        "topic_name": entry["topic_name"],
        "topic_id": topic.id if topic is not None else NULL_UUID,
        "partitions": [
            _alter_partition(request, group, entry["topic_name"], partition)
            async for partition in paced(entry["partitions"])
        ],
    }


def _alter_partition(request: Request, group: ShareGroup, name: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    index, offset = entry["partition_index"], entry["start_offset"]
    try:
        require(request, "READ", "TOPIC", name)
        if (partition := request.cluster.part(Topics).partition(name, index)) is None:
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        if offset < 0:
            raise ApiError(Error.INVALID_REQUEST, f"The start offset {offset} is negative.")
        topic_id_partition = partition.topic_id, index
        request.cluster.part(ShareStates).initialize(group.id, topic_id_partition, group.epoch, offset)
    except ApiError as api_error:
        return {"partition_index": index, "error_code": api_error.error, "error_message": api_error.message}
    return {"partition_index": index}
