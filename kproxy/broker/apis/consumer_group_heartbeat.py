"""ConsumerGroupHeartbeat: lets a member join a consumer group, report its assignment, and receive its target.

The assignors are Kafka's `uniform` and `range`, without racks. An assignment is computed immediately, not at most every
`group.consumer.assignment.interval.ms`. Topic patterns are matched in linear time, like kproxy's filters: RE2 syntax
without named groups, Unicode classes and word boundaries; other patterns return INVALID_REGULAR_EXPRESSION. A group has
at most 1,000 members, whatever `group.consumer.max.size` is.

A classic group with members becomes a consumer group when a member joins with this protocol, and a classic group again
when the last such member leaves, as far as `group.consumer.migration.policy` allows.

Leaves out: nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import is_allowed, require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import ASSIGNORS
from kproxy.broker.groups.consumer_member import LEAVING, LEAVING_TEMPORARILY
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.heartbeat import ConsumerHeartbeat
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("ConsumerGroupHeartbeat")
def consumer_group_heartbeat(request: Request) -> Body:
    """Return the member's epoch and assignment."""
    body = request.body
    group_id, topics = body["group_id"], body["subscribed_topic_names"]
    try:
        require(request, "READ", "GROUP", group_id)
        for topic in topics or ():
            require(request, "DESCRIBE", "TOPIC", topic)
        _check_request(body, request.version)
        check_coordinator(request, group_id)
        groups = request.cluster.part(Groups)
        if body["member_epoch"] == 0:
            groups.check_capacity(sum(map(len, topics or ())))
        return groups.consumer_heartbeat(group_id, _read_heartbeat(request))
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.message}


def _check_request(body: Mapping[str, Any], version: int) -> None:
    """Raise `ApiError` if the request is invalid (GroupCoordinatorService)."""
    epoch, regex = body["member_epoch"], body.get("subscribed_topic_regex")
    if version >= 1 or epoch > 0 or epoch == LEAVING:
        _check_not_blank(body["member_id"], "MemberId")
    _check_not_blank(body["group_id"], "GroupId")
    _check_not_blank(body["instance_id"], "InstanceId")
    _check_not_blank(body["rack_id"], "RackId")
    if epoch == 0:
        if body["rebalance_timeout_ms"] == -1:
            raise ApiError(Error.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
        if body["topic_partitions"] != []:
            raise ApiError(Error.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
        if body["subscribed_topic_names"] is None and regex is None:
            message = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            raise ApiError(Error.INVALID_REQUEST, message)
    elif epoch == LEAVING_TEMPORARILY:
        if body["instance_id"] is None:
            raise ApiError(Error.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEAVING_TEMPORARILY:
        raise ApiError(Error.INVALID_REQUEST, "MemberEpoch is invalid.")
    assignor = body["server_assignor"]
    if assignor is not None and assignor not in ASSIGNORS:
        supported = ", ".join(ASSIGNORS)
        message = f"ServerAssignor {assignor} is not supported. Supported assignors: {supported}."
        raise ApiError(Error.UNSUPPORTED_ASSIGNOR, message)


def _check_not_blank(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise ApiError(Error.INVALID_REQUEST, f"{name} can't be empty.")


def _read_heartbeat(request: Request) -> ConsumerHeartbeat:
    body = request.body
    timeout, topics, owned = body["rebalance_timeout_ms"], body["subscribed_topic_names"], body["topic_partitions"]
    return ConsumerHeartbeat(
        body["member_id"],
        body["member_epoch"],
        request.client_id or "",
        request.session.client_host,
        body["instance_id"],
        body["rack_id"],
        None if timeout == -1 else timeout,
        None if topics is None else frozenset(topics),
        body.get("subscribed_topic_regex"),
        body["server_assignor"],
        None
        if owned is None
        else frozenset((topic["topic_id"], partition) for topic in owned for partition in topic["partitions"]),
        functools.partial(is_allowed, request, "DESCRIBE", "TOPIC"),
    )
