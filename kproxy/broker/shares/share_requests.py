"""Code shared by ShareFetch and ShareAcknowledge: finds the member, and applies its acknowledgements."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.features import Features
from kproxy.broker.groups.assignors import TopicIdPartition
from kproxy.broker.pacing import paced
from kproxy.broker.request import Request
from kproxy.broker.shares.acknowledgement import read_acknowledgements
from kproxy.broker.shares.sessions import AllShareSessions, ShareConnection, ShareSession
from kproxy.broker.shares.shares import SharePartitions
from kproxy.broker.topics import Topics

if TYPE_CHECKING:
    from kproxy.broker.cluster import BrokerNode, Cluster

_MAX_MEMBER_ID_LENGTH: Final = 36
_FIRST_VERSION_WITH_RENEWALS: Final = 2


def check_enabled(request: Request) -> None:
    """Raise `ApiError` with UNSUPPORTED_VERSION if the share group feature is off."""
    if not request.cluster.part(Features).level("share.version"):
        raise ApiError(Error.UNSUPPORTED_VERSION)


def authorized_group_and_member(request: Request) -> tuple[str, str]:
    """Return the group id and the member id of a request, if its client may read the group.

    Raises:
        ApiError: UNSUPPORTED_VERSION, INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED.
    """
    check_enabled(request)
    group_id, member_id = request.body["group_id"], request.body["member_id"]
    if group_id is None:
        raise ApiError(Error.INVALID_REQUEST)
    require(request, "READ", "GROUP", group_id)
    check_member_id(member_id)
    return group_id, member_id


def check_member_id(member_id: str | None) -> None:
    """Raise `ApiError` with INVALID_REQUEST if the member id is invalid."""
    if not member_id or len(member_id) > _MAX_MEMBER_ID_LENGTH:
        raise ApiError(Error.INVALID_REQUEST)


def end_on_disconnect(request: Request, key: tuple[str, str], session: ShareSession) -> None:
    """End a session when its connection closes."""
    request.session.part(ShareConnection).on_close = functools.partial(
        end_session, request.cluster, request.node, key, session
    )


def end_session(cluster: Cluster, node: BrokerNode, key: tuple[str, str], session: ShareSession) -> None:
    """End a session; records that the member has acquired on this broker become available to others."""
    group_id, member_id = key
    if cluster.part(AllShareSessions).for_node(node).end(key, session):
        for topic_id_partition in session.partitions:
            share_partition = cluster.part(SharePartitions).find_led(node, group_id, topic_id_partition)
            if share_partition is not None:
                share_partition.release(member_id)


async def apply_acknowledgements(request: Request) -> dict[TopicIdPartition, dict[str, Any]]:
    """Apply a request's acknowledgements; return the index and the error, if any, of each listed partition."""
    return {
        (topic["topic_id"], partition["partition_index"]): _acknowledge_partition(request, topic["topic_id"], partition)
        async for topic in paced(request.body["topics"])
        async for partition in paced(topic["partitions"])
    }


def _acknowledge_partition(request: Request, topic_id: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    body, index, topics = request.body, entry["partition_index"], request.cluster.part(Topics)
    try:
        if (topic := topics.by_id(topic_id)) is None:
            raise ApiError(Error.UNKNOWN_TOPIC_ID)
        supports_renewal, is_renewal = request.version >= _FIRST_VERSION_WITH_RENEWALS, body.get("is_renew_ack", False)
        acknowledgements = read_acknowledgements(
            entry["acknowledgement_batches"], supports_renewal=supports_renewal, is_renewal=is_renewal
        )
        require(request, "READ", "TOPIC", topic.name)
        share_partition = request.cluster.part(SharePartitions).find_led(
            request.node, body["group_id"], (topic_id, index)
        )
        if topics.partition(topic.name, index) is None or (acknowledgements and share_partition is None):
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)  # as in Kafka, even if another broker leads it
        if acknowledgements and share_partition is not None:
            share_partition.acknowledge(body["member_id"], acknowledgements)
    except ApiError as api_error:
        return {"partition_index": index, "error_code": api_error.error, "error_message": api_error.message}
    return {"partition_index": index}
