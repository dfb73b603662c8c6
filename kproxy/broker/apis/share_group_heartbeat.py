"""ShareGroupHeartbeat: lets a member join or leave a share group, stay alive, and receive its assignment.

The assignor is Kafka's `simple`. Partitions are assigned in the response to the first heartbeat that names their topic,
not the next one, and immediately, not at most every `share.assignment.interval.ms`. Version 0 had a different layout.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.groups import Groups
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.group import LEAVING, ShareHeartbeat
from kproxy.broker.shares.share_requests import check_enabled, check_member_id


@api("ShareGroupHeartbeat", lowest=1)
def share_group_heartbeat(request: Request) -> Body:
    """Return the member's epoch and assignment."""
    body = request.body
    group_id, topics = body["group_id"], body["subscribed_topic_names"]
    try:
        check_enabled(request)
        require(request, "READ", "GROUP", group_id)
        check_member_id(body["member_id"])
        for topic in topics or ():
            require(request, "DESCRIBE", "TOPIC", topic)
        _check_request(body)
        check_coordinator(request, group_id)
        groups = request.cluster.part(Groups)
        is_joining = body["member_epoch"] == 0
        if is_joining:
            groups.check_capacity(sum(map(len, topics or ())))
        elif groups.get(group_id) is None and body["member_epoch"] != LEAVING:
            raise ApiError(Error.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return groups.share_group(group_id, create=is_joining).heartbeat(_read_heartbeat(request))
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.message}


def _check_request(body: Mapping[str, Any]) -> None:
    """Raise `ApiError` with INVALID_REQUEST if the request is invalid."""
    for name, label in (("member_id", "MemberId"), ("group_id", "GroupId"), ("rack_id", "RackId")):
        if body[name] is not None and not body[name].strip():
            raise ApiError(Error.INVALID_REQUEST, f"{label} can't be empty.")
    if body["member_epoch"] == 0 and not body["subscribed_topic_names"]:
        raise ApiError(Error.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if body["member_epoch"] < LEAVING:
        raise ApiError(Error.INVALID_REQUEST, "MemberEpoch is invalid.")


def _read_heartbeat(request: Request) -> ShareHeartbeat:
    body = request.body
    topics = body["subscribed_topic_names"]
    return ShareHeartbeat(
        body["member_id"],
        body["member_epoch"],
        request.client_id or "",
        request.session.client_host,
        body["rack_id"],
        None if topics is None else frozenset(topics),
    )
