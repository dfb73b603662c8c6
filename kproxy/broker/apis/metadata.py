"""Metadata: the brokers, and who leads the partitions of the topics asked for; makes topics that are missing.

Leaves out: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dissectors.layout import NULL_UUID
from kproxy.broker.configs import Configs
from kproxy.broker.errors import Error, Refused
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topic, Topics


@api("Metadata")
def metadata(request: Request) -> Body:
    """Answer with the topics asked for: all with null, in version 0 with none."""
    cluster = request.cluster
    asked = request.body["topics"]
    topics = cluster.part(Topics)
    if asked is None or (request.version == 0 and not asked):
        found: Iterable[Mapping[str, Any]] = [_described(each) for each in topics]
    else:
        found = [_asked(request, topics, each) for each in asked]
    return {
        "brokers": [
            {"node_id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
            for node in cluster.nodes.values()
            if node.up
        ],
        "cluster_id": cluster.id,
        "controller_id": cluster.controller.id,
        "topics": found,
    }


def _asked(request: Request, topics: Topics, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    name, topic_id = asked["name"], asked.get("topic_id", NULL_UUID)
    if topic_id != NULL_UUID:
        by_id = topics.with_id(topic_id)
        if by_id is None:
            return {"error_code": Error.UNKNOWN_TOPIC_ID, "name": name, "topic_id": topic_id}
        return _described(by_id)
    topic = topics.named(name)
    if topic is None:
        try:
            topic = _created(request, topics, name)
        except Refused as refused:
            return {"error_code": refused.error, "name": name}
    return _described(topic)


def _created(request: Request, topics: Topics, name: str) -> Topic:
    configs = request.cluster.part(Configs)
    allowed = request.body.get("allow_auto_topic_creation", True)
    if not allowed or configs.broker("auto.create.topics.enable") != "true":
        raise Refused(Error.UNKNOWN_TOPIC_OR_PARTITION)
    return topics.create(name, topics.spread(int(configs.broker("num.partitions"))))


def _described(topic: Topic) -> Mapping[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": [
            {
                "error_code": Error.NONE if each.leader >= 0 else Error.LEADER_NOT_AVAILABLE,
                "partition_index": each.index,
                "leader_id": each.leader,
                "leader_epoch": each.leader_epoch,
                "replica_nodes": each.replicas,
                "isr_nodes": each.isr,
                "offline_replicas": [node for node in each.replicas if node not in each.isr],
            }
            for each in topic.partitions
        ],
    }
