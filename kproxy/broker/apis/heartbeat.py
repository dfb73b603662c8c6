"""Heartbeat: keeps a member of a classic group alive, and tells it when to rejoin.

Leaves out: nothing.
"""

from __future__ import annotations

from kproxy.broker.access import require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.consumer import ConsumerGroup
from kproxy.broker.groups.groups import Groups
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("Heartbeat")
def heartbeat(request: Request) -> Body:
    """Return the error code."""
    body = request.body
    group_id = body["group_id"]
    try:
        require(request, "READ", "GROUP", group_id)
        if not group_id:
            raise ApiError(Error.INVALID_GROUP_ID)
        check_coordinator(request, group_id)
        group = request.cluster.part(Groups).get(group_id)
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            raise ApiError(Error.UNKNOWN_MEMBER_ID)
        group.heartbeat(body["member_id"], body.get("group_instance_id"), body["generation_id"])
    except ApiError as api_error:
        return {"error_code": api_error.error}
    return {}
