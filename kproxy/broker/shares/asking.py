"""What ShareFetch and ShareAcknowledge have in common: who asks, and what they acknowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.errors import Error, Refused
from kproxy.broker.features import Features
from kproxy.broker.groups.assignors import Part
from kproxy.broker.request import Request
from kproxy.broker.shares.acknowledging import read
from kproxy.broker.shares.sessions import AllShareSessions, ShareConnection, ShareSession
from kproxy.broker.shares.shares import Shares
from kproxy.broker.topics import Topics

_LONGEST_MEMBER_ID: Final = 36
_RENEWALS_FROM: Final = 2  # versions


def check_enabled(request: Request) -> None:
    """Raise `Refused` with UNSUPPORTED_VERSION unless the cluster has share groups: the feature can be turned off."""
    if not request.cluster.part(Features).level("share.version"):
        raise Refused(Error.UNSUPPORTED_VERSION)


def asker(request: Request) -> tuple[str, str]:
    """The group and the member that ask.

    Raises:
        Refused: UNSUPPORTED_VERSION, INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED.
    """
    check_enabled(request)
    group, member = request.body["group_id"], request.body["member_id"]
    if group is None:
        raise Refused(Error.INVALID_REQUEST)
    require(request, "READ", "GROUP", group)
    check_member_id(member)
    return group, member


def check_member_id(member_id: str | None) -> None:
    """Raise `Refused` with INVALID_REQUEST unless a member can have that id."""
    if not member_id or len(member_id) > _LONGEST_MEMBER_ID:
        raise Refused(Error.INVALID_REQUEST)


def connect(request: Request, key: tuple[str, str], session: ShareSession) -> None:
    """Have a session end with its connection."""
    request.session.part(ShareConnection).gone = lambda: end(request, key, session)


def end(request: Request, key: tuple[str, str], session: ShareSession) -> None:
    """Forget a session; others get the records that the member has."""
    if request.cluster.part(AllShareSessions).of(request.node).end(key, session):
        request.cluster.part(Shares).release(*key)


def acknowledged(request: Request) -> dict[Part, dict[str, Any]]:
    """Do what a request acknowledges; for each partition that it lists its index and what is wrong, if anything."""
    return {
        (topic["topic_id"], each["partition_index"]): _one(request, topic["topic_id"], each)
        for topic in request.body["topics"]
        for each in topic["partitions"]
    }


def _one(request: Request, topic_id: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    body, index, topics = request.body, asked["partition_index"], request.cluster.part(Topics)
    try:
        topic = topics.find(None, topic_id)
        renews, is_renewal = request.version >= _RENEWALS_FROM, body.get("is_renew_ack", False)
        said = read(asked["acknowledgement_batches"], renews=renews, is_renewal=is_renewal)
        require(request, "READ", "TOPIC", topic.name)
        if (partition := topics.partition(topic.name, index)) is None:
            raise Refused(Error.UNKNOWN_TOPIC_OR_PARTITION)
        if said:
            share = request.cluster.part(Shares).opened(body["group_id"], partition)
            if share is None or partition.leader != request.node.id:
                raise Refused(Error.UNKNOWN_TOPIC_OR_PARTITION)  # as Kafka says also where another broker leads
            share.acknowledge(body["member_id"], said)
    except Refused as refused:
        return {"partition_index": index, "error_code": refused.error, "error_message": refused.message}
    return {"partition_index": index}
