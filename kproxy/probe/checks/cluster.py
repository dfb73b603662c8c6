"""Metadata: brokers, existing topics and unknown topics."""

from __future__ import annotations

import secrets

from dissectors.schemas.codes import Error
from dissectors.wire.primitives import uuid_text
from kproxy.probe.check import CheckFailed, check
from kproxy.probe.scratch import expect, scratch_topic
from kproxy.probe.target import Target

_KAFKA_APIS = "core/src/main/scala/kafka/server/KafkaApis.scala"


@check("cluster/brokers", "https://kafka.apache.org/protocol#protocol_partitioning")
async def check_brokers(target: Target) -> None:
    """Metadata lists at least one broker, each node id once, with a host and a port.

    Clients connect to these addresses for everything that follows.
    """
    async with target.connection() as connection:
        response = await target.request(connection, "Metadata", min(9, target.version("Metadata")), topics=[])
        brokers = response.body["brokers"]
        if not brokers:
            raise response.failure("Metadata lists no broker")
        if len({broker["node_id"] for broker in brokers}) < len(brokers):
            raise response.failure("Metadata lists a node id twice")
        for broker in brokers:
            if broker["node_id"] < 0 or not broker["host"] or not 0 < broker["port"] < 1 << 16:
                raise response.failure(f"broker {broker['node_id']} has the address {broker['host']}:{broker['port']}")


@check("cluster/unknown-topic", _KAFKA_APIS)
async def check_unknown_topic(target: Target) -> None:
    """A topic that does not exist, and must not be created, returns UNKNOWN_TOPIC_OR_PARTITION.

    This error makes clients report a misspelt topic; any other makes them wait, or retry forever.
    """
    name = target.new_name("missing")
    async with target.connection() as connection:
        version = min(9, target.version("Metadata", 4))
        response = await target.request(
            connection, "Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=False
        )
        [topic] = response.body["topics"] or [{"error_code": -1, "name": None}]
        if topic["name"] != name:
            raise response.failure("the response does not have the topic of the request")
        expect(topic["error_code"], Error.UNKNOWN_TOPIC_OR_PARTITION, "Metadata of an unknown topic")


@check("cluster/unknown-topic-id", "KIP-516")
async def check_unknown_topic_id(target: Target) -> None:
    """A topic id that does not exist returns UNKNOWN_TOPIC_ID.

    This tells clients that a topic was deleted.
    """
    unknown_id = uuid_text(secrets.token_bytes(16))
    async with target.connection() as connection:
        version = min(12, target.version("Metadata", 12))
        topics = [{"topic_id": unknown_id, "name": None}]
        response = await target.request(connection, "Metadata", version, topics=topics, allow_auto_topic_creation=False)
        if len(response.body["topics"]) != 1:
            raise response.failure("the response does not have exactly the topic of the request")
        expect(response.body["topics"][0]["error_code"], Error.UNKNOWN_TOPIC_ID, "Metadata of an unknown topic id")


@check("cluster/no-topics", "https://issues.apache.org/jira/browse/KAFKA-2120")
async def check_no_topics(target: Target) -> None:
    """From version 1 on, an empty array of topics returns no topics.

    In version 0 it means all topics. Clients that only want the brokers rely on the difference.
    """
    async with target.connection() as connection:
        response = await target.request(connection, "Metadata", min(9, target.version("Metadata", 1)), topics=[])
        if response.body["topics"]:
            raise response.failure(f"an empty array of topics returns {len(response.body['topics'])} topics")


@check("cluster/all-topics", _KAFKA_APIS, writes=True)
async def check_all_topics(target: Target) -> None:
    """Null in place of the array of topics returns all topics.

    Consumers that subscribe to a pattern, and tools that list topics, ask this way.
    """
    async with scratch_topic(target) as topic, target.connection() as connection:
        response = await target.request(connection, "Metadata", min(9, target.version("Metadata", 1)), topics=None)
        if topic.name not in {topic["name"] for topic in response.body["topics"]}:
            raise CheckFailed(f"the topic {topic.name} is missing among all topics")


@check("cluster/topic-id", "KIP-516", writes=True)
async def check_topic_id(target: Target) -> None:
    """A topic has the same id in every response, and is found by it.

    Clients that know only the id, e.g. from an assignment, find the name with it.
    """
    async with scratch_topic(target) as topic, target.connection() as connection:
        version = min(12, target.version("Metadata", 12))
        response_by_name = await target.request(connection, "Metadata", version, topics=[{"name": topic.name}])
        expected_id = response_by_name.body["topics"][0]["topic_id"]
        response_by_id = await target.request(
            connection, "Metadata", version, topics=[{"topic_id": expected_id, "name": None}]
        )
        topics = response_by_id.body["topics"]
        if len(topics) != 1 or (topics[0]["name"], topics[0]["topic_id"]) != (topic.name, expected_id):
            raise response_by_id.failure(f"the topic id {expected_id} of {topic.name} does not return that topic")
