"""SyncGroup: lets the leader of a classic group send the assignments, and returns each member's.

Leaves out: nothing.
"""

from __future__ import annotations

import functools

from kproxy.broker.access import require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.consumer import ConsumerGroup
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.response_wait import wait_for_response
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("SyncGroup")
async def sync_group(request: Request) -> Body:
    """Return the member's assignment once the leader has sent all assignments."""
    body = request.body
    group_id = body["group_id"]
    protocol = body.get("protocol_type"), body.get("protocol_name")
    try:
        if request.version >= 5 and None in protocol:
            raise ApiError(Error.INCONSISTENT_GROUP_PROTOCOL)
        require(request, "READ", "GROUP", group_id)
        if not group_id:
            raise ApiError(Error.INVALID_GROUP_ID)
        check_coordinator(request, group_id)
        groups = request.cluster.part(Groups)
        group = groups.get(group_id)
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            raise ApiError(Error.UNKNOWN_MEMBER_ID)
        assignments = {assignment["member_id"]: assignment["assignment"] for assignment in body["assignments"]}
        groups.check_capacity(sum(map(len, assignments.values())))
        instance_id = body.get("group_instance_id")
        sync = functools.partial(
            group.sync, body["member_id"], instance_id, body["generation_id"], protocol, assignments
        )
        return await wait_for_response(sync)
    except ApiError as api_error:
        return {"error_code": api_error.error, "assignment": b""}
