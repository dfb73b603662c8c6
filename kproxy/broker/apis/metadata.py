"""Metadata: returns the brokers and the leaders of the requested topics' partitions; creates missing topics.

Topics are requested by name, from version 10 on also by id. A missing topic is created if the brokers'
``auto.create.topics.enable`` and, from version 4 on, the request allow it; this response still has an error for it.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from dissectors.wire.layout import NULL_UUID
from kproxy.broker.access import CLUSTER, NO_OPERATIONS, authorized_operations, is_allowed, require
from kproxy.broker.auto_creation import AutoCreation
from kproxy.broker.configs import Configs
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topic, Topics, check_name


@api("Metadata")
async def metadata(request: Request) -> Body:
    """Return the requested topics; null, or in version 0 an empty list, requests all topics."""
    cluster, body = request.cluster, request.body
    requested, topics = body["topics"], cluster.part(Topics)
    if requested is None or (request.version == 0 and not requested):
        visible_topics = [
            topic async for topic in paced(list(topics)) if is_allowed(request, "DESCRIBE", "TOPIC", topic.name)
        ]
        topic_responses: Iterable[Mapping[str, Any]] = [
            _with_operations(request, topic) async for topic in paced(visible_topics)
        ]
    else:
        # If one topic is requested by id, those requested by name are ignored, as in Kafka.
        by_id = [topic for topic in requested if topic.get("topic_id", NULL_UUID) != NULL_UUID]
        missing_names: list[str] = []
        topic_responses = [
            _requested_topic(request, topics, topic_request, missing_names)
            async for topic_request in paced(by_id or requested)
        ]
        cluster.part(AutoCreation).create_later(missing_names)
    includes_operations = body.get("include_cluster_authorized_operations", False)
    return {
        "brokers": [
            {"node_id": node.id, "rack": node.rack, **request.endpoint(node)}
            for node in cluster.nodes.values()
            if node.up
        ],
        "cluster_id": cluster.id,
        "controller_id": cluster.controller.id,
        "topics": topic_responses,
        "cluster_authorized_operations": authorized_operations(request, "CLUSTER", CLUSTER)
        if includes_operations
        else NO_OPERATIONS,
    }


def describe_topic(topic: Topic) -> dict[str, Any]:
    """Return a topic as Metadata and DescribeTopicPartitions describe it."""
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": [
            {
                "error_code": Error.NONE if partition.leader >= 0 else Error.LEADER_NOT_AVAILABLE,
                "partition_index": partition.index,
                "leader_id": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replica_nodes": partition.replicas,
                "isr_nodes": partition.isr,
                "offline_replicas": [node for node in partition.replicas if node not in partition.isr],
            }
            for partition in topic.partitions
        ],
    }


def _with_operations(request: Request, topic: Topic) -> Mapping[str, Any]:
    includes_operations = request.body.get("include_topic_authorized_operations", False)
    return {
        **describe_topic(topic),
        "topic_authorized_operations": authorized_operations(request, "TOPIC", topic.name)
        if includes_operations
        else NO_OPERATIONS,
    }


def _requested_topic(
    request: Request, topics: Topics, entry: Mapping[str, Any], missing_names: list[str]
) -> Mapping[str, Any]:
    """Return a topic or an error; append the topic's name to `missing_names` if it has to be created."""
    name, topic_id = entry["name"], entry.get("topic_id", NULL_UUID)
    try:
        if name is not None:
            require(request, "DESCRIBE", "TOPIC", name)
        if name is not None and topic_id == NULL_UUID:
            return _with_operations(
                request, topics.by_name(name) or _reject_missing(request, topics, name, missing_names)
            )
        topic = topics.find(None, topic_id)
        require(request, "DESCRIBE", "TOPIC", topic.name)
        return _with_operations(request, topic)
    except ApiError as api_error:
        # Before version 12 the name cannot be null, and Kafka does not look up ids (KAFKA-14480).
        return {
            "error_code": api_error.error,
            "name": name if request.version >= 12 else name or "",
            "topic_id": topic_id,
        }


def _reject_missing(request: Request, topics: Topics, name: str, missing_names: list[str]) -> NoReturn:
    """Raise an error even if the topic will be created: Kafka creates it in the background, for a later request."""
    cluster = request.cluster
    is_creation_requested = request.body.get("allow_auto_topic_creation", True)
    check_name(name)
    if not is_creation_requested or cluster.part(Configs).broker("auto.create.topics.enable") != "true":
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION)
    if not is_allowed(request, "CREATE", "CLUSTER", CLUSTER):
        require(request, "CREATE", "TOPIC", name)
    if topics.find_colliding(name) is None:
        missing_names.append(name)
    elif not cluster.line.kraft:
        raise ApiError(Error.INVALID_TOPIC_EXCEPTION)
    raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION if cluster.line.kraft else Error.LEADER_NOT_AVAILABLE)
