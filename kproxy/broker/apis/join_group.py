"""JoinGroup: lets a member join a classic group; the response is sent when all members have joined.

The first member of an empty group does not wait for others: `group.initial.rebalance.delay.ms` defaults to 0, in Kafka
to 3000. A group has at most 1,000 members, whatever `group.max.size` is.

Leaves out: nothing.
"""

from __future__ import annotations

import functools

from kproxy.broker.access import require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.classic_member import JoinRequest
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.response_wait import wait_for_response
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("JoinGroup")
async def join_group(request: Request) -> Body:
    """Return the member's response once all members have joined."""
    body = request.body
    group_id, member_id = body["group_id"], body["member_id"]
    try:
        require(request, "READ", "GROUP", group_id)
        if not group_id:
            raise ApiError(Error.INVALID_GROUP_ID)
        groups = request.cluster.part(Groups)
        if body["session_timeout_ms"] not in groups.settings.session_timeouts:
            raise ApiError(Error.INVALID_SESSION_TIMEOUT)
        check_coordinator(request, group_id)
        if member_id and groups.get(group_id) is None:
            raise ApiError(Error.UNKNOWN_MEMBER_ID)
        join_request = _read_request(request)
        groups.check_capacity(sum(map(len, join_request.protocols.values())))
        group = groups.classic_group(group_id)
        response = await wait_for_response(functools.partial(group.join, join_request))
    except ApiError as api_error:
        response = {"error_code": api_error.error, "member_id": member_id}
    # the protocol name must not be null before version 7
    protocol_name = response.get("protocol_name")
    return {**response, "protocol_name": "" if protocol_name is None and request.version < 7 else protocol_name}


def _read_request(request: Request) -> JoinRequest:
    body = request.body
    return JoinRequest(
        body["member_id"],
        body.get("group_instance_id"),
        request.client_id or "",
        request.session.client_host,
        body["session_timeout_ms"],
        body.get("rebalance_timeout_ms", body["session_timeout_ms"]),
        body["protocol_type"],
        {protocol["name"]: protocol["metadata"] for protocol in body["protocols"]},
        learns_id=request.version >= 4,
        skips=request.version >= 9,
    )
