"""DeleteShareGroupOffsets: deletes topics from a share group without members.

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
from kproxy.broker.shares.share_requests import check_enabled
from kproxy.broker.shares.states import ShareStates
from kproxy.broker.topics import Topics


@api("DeleteShareGroupOffsets")
async def delete_share_group_offsets(request: Request) -> Body:
    """Return the results once the change is durable."""
    group_id = request.body["group_id"]
    try:
        check_enabled(request)
        require(request, "DELETE", "GROUP", group_id)
        if not group_id:
            raise ApiError(Error.INVALID_GROUP_ID)
        check_coordinator(request, group_id)
        request.cluster.part(Groups).share_group(group_id).check_deletion()
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.message}
    topics = [_delete_topic(request, group_id, topic["topic_name"]) async for topic in paced(request.body["topics"])]
    return {"responses": topics}


def _delete_topic(request: Request, group_id: str, name: str) -> Mapping[str, Any]:
    states = request.cluster.part(ShareStates)
    try:
        require(request, "READ", "TOPIC", name)
        if (topic := request.cluster.part(Topics).by_name(name)) is None:
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        topic_id_partitions = [
            topic_id_partition for topic_id_partition in states.for_group(group_id) if topic_id_partition[0] == topic.id
        ]
        if not topic_id_partitions:
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")
    except ApiError as api_error:
        return {
            "topic_name": name,
            "topic_id": NULL_UUID,
            "error_code": api_error.error,
            "error_message": api_error.message,
        }
    for topic_id_partition in topic_id_partitions:
        states.forget(group_id, topic_id_partition)
    return {"topic_name": name, "topic_id": topic.id}
