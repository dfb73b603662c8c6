"""LeaveGroup: removes members from a group, several at a time from version 3 on.

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


@api("LeaveGroup")
def leave_group(request: Request) -> Body:
    """Return the result for each member; before version 3 there is one, and its error is at the top level."""
    body = request.body
    group_id = body["group_id"]
    member_entries = body.get("members") or ([] if request.version >= 3 else [body])
    members = [(member["member_id"], member.get("group_instance_id")) for member in member_entries]
    try:
        require(request, "READ", "GROUP", group_id)
        if not group_id:
            raise ApiError(Error.INVALID_GROUP_ID)
        check_coordinator(request, group_id)
        group = request.cluster.part(Groups).get(group_id)
        if isinstance(group, ClassicGroup | ConsumerGroup):
            errors = group.leave(members)
        else:
            errors = [Error.UNKNOWN_MEMBER_ID] * len(members)
    except ApiError as api_error:
        return {"error_code": api_error.error}
    return {
        "error_code": errors[0] if request.version < 3 else Error.NONE,
        "members": [
            {"member_id": member_id, "group_instance_id": instance_id, "error_code": error}
            for (member_id, instance_id), error in zip(members, errors, strict=True)
        ],
    }
