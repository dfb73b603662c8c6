"""ConsumerGroupDescribe: describes consumer groups: epochs, assignor, members, their current and target assignments.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import authorized_operations, is_allowed, require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.consumer import ConsumerGroup
from kproxy.broker.groups.groups import Groups
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("ConsumerGroupDescribe")
async def consumer_group_describe(request: Request) -> Body:
    """Return the description of each group."""
    return {"groups": [_describe(request, group_id) async for group_id in paced(request.body["group_ids"])]}


def _describe(request: Request, group_id: str) -> Mapping[str, Any]:
    try:
        require(request, "DESCRIBE", "GROUP", group_id)
        if not group_id:
            raise ApiError(Error.INVALID_GROUP_ID)
        check_coordinator(request, group_id)
        group = request.cluster.part(Groups).find(group_id)
        if not isinstance(group, ConsumerGroup):
            raise ApiError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        description = group.describe()
        if not all(is_allowed(request, "DESCRIBE", "TOPIC", topic) for topic in _topic_names(description)):
            message = "The group has described topic(s) that the client is not authorized to describe."
            raise ApiError(Error.TOPIC_AUTHORIZATION_FAILED, message)
    except ApiError as api_error:
        return {"group_id": group_id, "error_code": api_error.error, "error_message": api_error.message}
    if not request.body["include_authorized_operations"]:
        return description
    return {**description, "authorized_operations": authorized_operations(request, "GROUP", group_id)}


def _topic_names(group: Mapping[str, Any]) -> set[str]:
    return {
        topic["topic_name"]
        for member in group["members"]
        for name in ("assignment", "target_assignment")
        for topic in member[name]["topic_partitions"]
    }
