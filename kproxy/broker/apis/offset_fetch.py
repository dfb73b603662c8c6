"""OffsetFetch: returns committed offsets of groups; -1 without an error for a group that does not exist.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dissectors.wire.layout import NULL_UUID
from kproxy.broker.access import is_allowed, require
from kproxy.broker.coordinators import check_coordinator
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.offsets import CommittedOffset, Offsets, TopicPartition
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics

_NO_OFFSET: Final = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}


@api("OffsetFetch")
async def offset_fetch(request: Request) -> Body:
    """Return the offsets of each group; before version 8 there is one group."""
    if request.version >= 8:
        return {"groups": [await _fetch_group(request, group) async for group in paced(request.body["groups"])]}
    group = await _fetch_group(request, request.body)
    if request.version < 2 and group["error_code"]:  # these versions have no top-level error
        return {"topics": _error_topics(request.body["topics"], group["error_code"])}
    return group


async def _fetch_group(request: Request, entry: Mapping[str, Any]) -> dict[str, Any]:
    group_id, topics = entry["group_id"], entry["topics"]
    response = {"group_id": group_id, "error_code": Error.NONE, "topics": []}
    try:
        require(request, "DESCRIBE", "GROUP", group_id)
        check_coordinator(request, group_id)
        group = request.cluster.part(Groups).get(group_id)
        if group is not None:
            group.check_fetch(entry.get("member_id"), entry.get("member_epoch", -1))
    except ApiError as api_error:
        return {**response, "error_code": api_error.error}
    offsets = request.cluster.part(Offsets)
    committed = offsets.for_group(group_id)
    unstable = offsets.pending(group_id) if request.body.get("require_stable") else frozenset()
    if topics is None:
        return {**response, "topics": await _fetch_all_topics(request, committed, unstable)}
    return {
        **response,
        "topics": [await _fetch_topic(request, topic, committed, unstable) async for topic in paced(topics)],
    }


async def _fetch_all_topics(
    request: Request, committed: Mapping[TopicPartition, CommittedOffset], unstable: frozenset[TopicPartition]
) -> list[dict[str, Any]]:
    topics: dict[str, dict[str, Any]] = {}
    async for topic_partition, offset in paced(committed.items()):
        if is_allowed(request, "DESCRIBE", "TOPIC", topic_partition[0]):
            topic = topics.setdefault(
                topic_partition[0], {"name": topic_partition[0], "topic_id": offset.topic_id, "partitions": []}
            )
            topic["partitions"].append(_fetch_partition(topic_partition, committed, unstable))
    return list(topics.values())


async def _fetch_topic(
    request: Request,
    entry: Mapping[str, Any],
    committed: Mapping[TopicPartition, CommittedOffset],
    unstable: frozenset[TopicPartition],
) -> dict[str, Any]:
    topic_id, name = entry.get("topic_id", NULL_UUID), entry.get("name", "")
    if request.version >= 10:
        known_topic = request.cluster.part(Topics).by_id(topic_id)
        if known_topic is None:
            return _error_topics([entry], Error.UNKNOWN_TOPIC_ID)[0]
        name = known_topic.name
    if not is_allowed(request, "DESCRIBE", "TOPIC", name):
        return _error_topics([entry], Error.TOPIC_AUTHORIZATION_FAILED)[0]
    partitions = [
        _fetch_partition((name, index), committed, unstable) async for index in paced(entry["partition_indexes"])
    ]
    return {"name": name, "topic_id": topic_id, "partitions": partitions}


def _fetch_partition(
    topic_partition: TopicPartition,
    committed: Mapping[TopicPartition, CommittedOffset],
    unstable: frozenset[TopicPartition],
) -> dict[str, Any]:
    if topic_partition in unstable:
        return {"partition_index": topic_partition[1], **_NO_OFFSET, "error_code": Error.UNSTABLE_OFFSET_COMMIT}
    if (offset := committed.get(topic_partition)) is None:
        return {"partition_index": topic_partition[1], **_NO_OFFSET}
    return {
        "partition_index": topic_partition[1],
        "committed_offset": offset.offset,
        "committed_leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
    }


def _error_topics(topics: list[Mapping[str, Any]], error: Error) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.get("name", ""),
            "topic_id": topic.get("topic_id", NULL_UUID),
            "partitions": [
                {"partition_index": index, **_NO_OFFSET, "error_code": error} for index in topic["partition_indexes"]
            ],
        }
        for topic in topics
    ]
