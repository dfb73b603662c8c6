"""ShareGroupDescribe: describes share groups: epochs, assignor, members and their assignments.

Version 0 had a different layout.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import authorized_operations, is_allowed, require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.groups import Groups
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.share_requests import check_enabled


@api("ShareGroupDescribe", lowest=1)
async def share_group_describe(request: Request) -> Body:
    """Return the description of each group."""
    return {"groups": [_describe(request, group_id) async for group_id in paced(request.body["group_ids"])]}


def _describe(request: Request, group_id: str) -> Mapping[str, Any]:
    try:
        check_enabled(request)
        require(request, "DESCRIBE", "GROUP", group_id)
        if not group_id:
            raise ApiError(Error.INVALID_GROUP_ID)
        check_coordinator(request, group_id)
        description = request.cluster.part(Groups).share_group(group_id).describe()
        if not all(is_allowed(request, "DESCRIBE", "TOPIC", topic) for topic in _topic_names(description)):
            message = "The group has described topic(s) that the client is not authorized to describe."
            raise ApiError(Error.TOPIC_AUTHORIZATION_FAILED, message)
    except ApiError as api_error:
        return {"group_id": group_id, "error_code": api_error.error, "error_message": api_error.message}
    if not request.body["include_authorized_operations"]:
        return description
    return {**description, "authorized_operations": authorized_operations(request, "GROUP", group_id)}


def _topic_names(group: Mapping[str, Any]) -> set[str]:
    return {topic["topic_name"] for member in group["members"] for topic in member["assignment"]["topic_partitions"]}
