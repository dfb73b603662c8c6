"""DescribeGroups: returns state, protocol and members of classic groups. A group that does not exist is Dead.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import authorized_operations, require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.groups import Groups
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("DescribeGroups")
async def describe_groups(request: Request) -> Body:
    """Return the description of each group."""
    return {"groups": [_describe(request, group) async for group in paced(request.body["groups"])]}


def _describe(request: Request, group_id: str) -> Mapping[str, Any]:
    try:
        require(request, "DESCRIBE", "GROUP", group_id)
        check_coordinator(request, group_id)
        group = request.cluster.part(Groups).find(group_id)
        if not isinstance(group, ClassicGroup):
            raise ApiError(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        description = group.describe()
    except ApiError as api_error:
        description = {"group_id": group_id, "error_code": api_error.error}
        if api_error.error is Error.GROUP_ID_NOT_FOUND:
            description |= {"group_state": "Dead", "error_message": api_error.message}
            if request.version < 6:  # these versions do not return an error
                description["error_code"] = Error.NONE
    if request.body.get("include_authorized_operations") and not description.get("error_code"):
        return {**description, "authorized_operations": authorized_operations(request, "GROUP", group_id)}
    return description
