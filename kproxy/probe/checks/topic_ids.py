"""Topic ids: the versions that use them instead of names, and deleted topics (KIP-516)."""

from __future__ import annotations

import secrets
from typing import Any

from dissectors.schemas.codes import Error
from dissectors.wire.primitives import uuid_text
from kproxy.probe.check import CheckFailed, check
from kproxy.probe.scratch import ScratchTopic, batch, expect, poll_until, scratch_topic, values_of
from kproxy.probe.target import BrokerResponse, Target

_FETCH, _PRODUCE, _METADATA, _DELETE = 13, 13, 10, 6  # the first versions with topic ids
_NO_ID = uuid_text(bytes(16))
_KAFKA_APIS = "core/src/main/scala/kafka/server/KafkaApis.scala"
_CONTROLLER = "core/src/main/scala/kafka/server/ControllerApis.scala"


@check("topic-ids/metadata", "KIP-516", writes=True)
async def check_metadata(target: Target) -> None:
    """Metadata returns the same topic id from version 10 on.

    Clients compare it with the id that they know, to notice that a topic was deleted and created again. A zero id means
    that the broker has no topic ids, and clients then fall back to names.
    """
    newest = target.version("Metadata", _METADATA)
    async with scratch_topic(target) as topic:
        topic_ids = {version: await topic.topic_id(version) for version in range(_METADATA, newest + 1)}
    if topic_ids[newest] == _NO_ID:
        raise CheckFailed("Metadata returns a zero topic id")
    if len(set(topic_ids.values())) > 1:
        raise CheckFailed(f"the topic id depends on the version of Metadata: {topic_ids}")


@check("topic-ids/fetch", "KIP-516", _KAFKA_APIS, writes=True)
async def check_fetch(target: Target) -> None:
    """From version 13 on, Fetch reads a topic by its id, and the response has that id.

    From that version on, a Fetch has no topic names that consumers could fall back to.
    """
    target.version("Fetch", _FETCH)
    async with scratch_topic(target) as topic:
        expect((await topic.produce(batch(b"by id")))["error_code"], Error.NONE, "Produce")
        topic_id = await topic.topic_id()
        response = await _fetch(topic, topic_id)
        partition = _only_partition(response, topic_id, "partitions")
        expect(partition["error_code"], Error.NONE, "Fetch by topic id")
        if values_of(partition["records"]) != [b"by id"]:
            raise response.failure("Fetch by topic id does not return the record")


@check("topic-ids/fetch-unknown", "KIP-516", _KAFKA_APIS, writes=True)
async def check_fetch_unknown(target: Target) -> None:
    """Fetch of an unknown topic id returns UNKNOWN_TOPIC_ID.

    This error makes consumers refresh their metadata, and continue with the new id.
    """
    target.version("Fetch", _FETCH)
    async with scratch_topic(target) as topic:
        unknown_id = _random_id()
        partition = _only_partition(await _fetch(topic, unknown_id), unknown_id, "partitions")
        expect(partition["error_code"], Error.UNKNOWN_TOPIC_ID, "Fetch of an unknown topic id")


@check("topic-ids/produce", "KIP-516", _KAFKA_APIS, writes=True)
async def check_produce(target: Target) -> None:
    """From version 13 on, Produce names a topic by its id; an unknown id returns UNKNOWN_TOPIC_ID.

    This error makes producers refresh their metadata instead of writing to a topic that replaced theirs.
    """
    target.version("Produce", _PRODUCE)
    async with scratch_topic(target) as topic:
        for topic_id, expected in ((await topic.topic_id(), Error.NONE), (_random_id(), Error.UNKNOWN_TOPIC_ID)):
            data = {"topic_id": topic_id, "partition_data": [{"index": 0, "records": batch(b"x")}]}
            response = await topic.request("Produce", _PRODUCE, acks=-1, timeout_ms=10_000, topic_data=[data])
            partition = _only_partition(response, topic_id, "partition_responses")
            expect(partition["error_code"], expected, "Produce by topic id")
        if values_of((await topic.fetch())["records"]) != [b"x"]:
            raise CheckFailed("the record that was produced by topic id is not in the topic")


@check("topic-ids/delete", "KIP-516", _CONTROLLER, writes=True)
async def check_delete(target: Target) -> None:
    """DeleteTopics deletes a topic by its id from version 6 on; an unknown id returns UNKNOWN_TOPIC_ID.

    A tool that uses the id never deletes a newer topic with the same name.
    """
    version = min(_DELETE, target.version("DeleteTopics", _DELETE))
    async with scratch_topic(target) as topic, target.connection() as connection:
        topic_id = await topic.topic_id()
        for requested_id, expected in ((_random_id(), Error.UNKNOWN_TOPIC_ID), (topic_id, Error.NONE)):
            answer = await target.request(connection, "DeleteTopics", version, timeout_ms=10_000,
                                          topics=[{"name": None, "topic_id": requested_id}])  # fmt: skip
            [response] = answer.body["responses"] or [{"topic_id": None}]
            if response["topic_id"] != requested_id:
                raise answer.failure("the response does not have the topic id of the request")
            expect(response["error_code"], expected, "DeleteTopics by topic id")
        if response["name"] != topic.name:
            raise answer.failure(f"the deleted topic {topic.name} is named {response['name']!r} in the response")


@check("topic-ids/recreated", "KIP-516", writes=True)
async def check_recreated_topic(target: Target) -> None:
    """A topic that is deleted and created again has a new id, and the old one returns UNKNOWN_TOPIC_ID.

    If the id stayed the same, consumers would read the new topic at the offsets of the old one.
    """
    target.version("Fetch", _FETCH)
    async with scratch_topic(target) as old_topic:
        old_id = await old_topic.topic_id()
    async with target.connection() as connection:
        await poll_until(
            target,
            lambda: target.request(
                connection, "Metadata", 9, topics=[{"name": old_topic.name}], allow_auto_topic_creation=False
            ),
            lambda answer: bool(answer.body["topics"][0]["error_code"]),
        )
    async with scratch_topic(target, old_topic.name) as new_topic:
        if await new_topic.topic_id() == old_id:
            raise CheckFailed(f"the topic has its old id {old_id} after it was deleted and created again")
        partition = _only_partition(await _fetch(new_topic, old_id), old_id, "partitions")
        expect(partition["error_code"], Error.UNKNOWN_TOPIC_ID, "Fetch of the deleted topic's id")


async def _fetch(topic: ScratchTopic, topic_id: str) -> BrokerResponse:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    return await topic.request("Fetch", _FETCH, max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20,
                               topics=[{"topic_id": topic_id, "partitions": [partition]}])  # fmt: skip


def _only_partition(response: BrokerResponse, topic_id: str, name: str) -> dict[str, Any]:
    """Return the only partition in the response; fail unless it belongs to that topic."""
    if response.body.get("error_code"):
        raise response.failure(f"the whole request fails with error {response.body['error_code']}")
    topics = response.body["responses"]
    if [topic["topic_id"] for topic in topics] != [topic_id] or len(topics[0][name]) != 1:
        raise response.failure("the response does not have exactly the topic id and partition of the request")
    partition: dict[str, Any] = topics[0][name][0]
    return partition


def _random_id() -> str:
    return uuid_text(secrets.token_bytes(16))
