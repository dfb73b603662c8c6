"""DescribeShareGroupOffsets: returns the start offsets of share groups in partitions, and their lag.

An unknown offset is -1; this includes groups, topics and partitions that do not exist.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dissectors.wire.layout import NULL_UUID
from kproxy.broker.access import is_allowed, require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.shares.share_requests import check_enabled
from kproxy.broker.shares.states import UNKNOWN, ShareStates
from kproxy.broker.topics import Topic, Topics


@api("DescribeShareGroupOffsets")
async def describe_share_group_offsets(request: Request) -> Body:
    """Return the offsets of each group."""
    return {"groups": [await _describe_group(request, group) async for group in paced(request.body["groups"])]}


async def _describe_group(request: Request, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    group = entry["group_id"]
    try:
        check_enabled(request)
        require(request, "DESCRIBE", "GROUP", group)
        check_coordinator(request, group)
    except ApiError as api_error:
        return {"group_id": group, "error_code": api_error.error, "error_message": api_error.message}
    if entry["topics"] is None:
        return {"group_id": group, "topics": await _describe_all_topics(request, group)}
    return {
        "group_id": group,
        "topics": [await _describe_requested_topic(request, group, topic) async for topic in paced(entry["topics"])],
    }


async def _describe_all_topics(request: Request, group: str) -> list[Mapping[str, Any]]:
    """Return the offsets of all the group's partitions in topics that the client may describe."""
    indexes_by_topic: dict[str, list[int]] = {}
    for topic_id, index in sorted(request.cluster.part(ShareStates).for_group(group)):
        indexes_by_topic.setdefault(topic_id, []).append(index)
    topics = ((request.cluster.part(Topics).by_id(topic_id), indexes) for topic_id, indexes in indexes_by_topic.items())
    return [
        await _describe_topic(request, group, topic, indexes)
        for topic, indexes in topics
        if topic is not None and is_allowed(request, "DESCRIBE", "TOPIC", topic.name)
    ]


async def _describe_requested_topic(request: Request, group: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    name, indexes = entry["topic_name"], entry["partitions"]
    try:
        require(request, "DESCRIBE", "TOPIC", name)
    except ApiError as api_error:
        error = {"error_code": api_error.error, "error_message": api_error.message}
    else:
        error = {}
        if (topic := request.cluster.part(Topics).by_name(name)) is not None:
            return await _describe_topic(request, group, topic, indexes)
    unknown = [{"partition_index": index, "start_offset": UNKNOWN, "lag": UNKNOWN, **error} for index in indexes]
    return {"topic_name": name, "topic_id": NULL_UUID, "partitions": unknown}


async def _describe_topic(request: Request, group: str, topic: Topic, indexes: Sequence[int]) -> Mapping[str, Any]:
    partitions = [_describe_partition(request, group, topic, index) async for index in paced(indexes)]
    return {"topic_name": topic.name, "topic_id": topic.id, "partitions": partitions}


def _describe_partition(request: Request, group: str, topic: Topic, index: int) -> Mapping[str, Any]:
    state = request.cluster.part(ShareStates).get(group, (topic.id, index))
    if state is None or index >= len(topic.partitions):
        return {"partition_index": index, "start_offset": UNKNOWN, "lag": UNKNOWN}
    is_known = UNKNOWN not in (state.start_offset, state.complete)
    lag = topic.partitions[index].log.end_offset - state.start_offset - state.complete
    return {
        "partition_index": index,
        "start_offset": state.start_offset,
        "leader_epoch": max(state.leader_epoch, 0),
        "lag": lag if is_known else UNKNOWN,
        "error_code": Error.NONE,
    }
