"""Creating and deleting topics, and the errors that admin clients and tools rely on."""

from __future__ import annotations

from dissectors.schemas.codes import Error
from kproxy.probe.check import check
from kproxy.probe.scratch import create_topic, delete_topic, expect, scratch_topic
from kproxy.probe.target import Target

_CONTROL = "metadata/src/main/java/org/apache/kafka/controller/ReplicationControlManager.java"
_TOO_MANY = 10_000  # replicas, more than any cluster has brokers


@check("topics/exists", _CONTROL, writes=True)
async def check_existing_topic(target: Target) -> None:
    """CreateTopics with the name of an existing topic returns TOPIC_ALREADY_EXISTS.

    Many applications create their topics whenever they start, and ignore only this error.
    """
    async with scratch_topic(target) as topic, target.connection() as connection:
        code = await create_topic(target, connection, topic.name, 1, 1)
        expect(code, Error.TOPIC_ALREADY_EXISTS, "CreateTopics of an existing topic")


@check("topics/partitions", _CONTROL, writes=True)
async def check_zero_partitions(target: Target) -> None:
    """CreateTopics with 0 partitions returns INVALID_PARTITIONS.

    A topic without partitions can be neither written nor read, and clients wait for its leader.
    """
    async with target.connection() as connection:
        code = await create_topic(target, connection, target.new_name("topic"), 0, 1)
        expect(code, Error.INVALID_PARTITIONS, "CreateTopics with 0 partitions")


@check("topics/replication-factor", _CONTROL, writes=True)
async def check_replication_factor(target: Target) -> None:
    """CreateTopics with a replication factor of 0, or above the number of brokers, returns INVALID_REPLICATION_FACTOR.

    This error makes tools that create topics with a factor of 3 try a smaller one.
    """
    async with target.connection() as connection:
        for factor in (0, _TOO_MANY):
            code = await create_topic(target, connection, target.new_name("topic"), 1, factor)
            expect(code, Error.INVALID_REPLICATION_FACTOR, f"CreateTopics with replication factor {factor}")


@check("topics/validate-only", "KIP-4", writes=True)
async def check_validate_only(target: Target) -> None:
    """CreateTopics with validate_only creates nothing.

    Tools use it for dry runs, and before they ask for confirmation.
    """
    name = target.new_name("topic")
    target.version("CreateTopics", 1)
    async with target.connection() as connection:
        code = await create_topic(target, connection, name, 1, 1, validate_only=True)
        expect(code, Error.NONE, "CreateTopics")
        response = await target.request(connection, "Metadata", min(9, target.version("Metadata", 4)),
                                    topics=[{"name": name}], allow_auto_topic_creation=False)  # fmt: skip
        if response.body["topics"][0]["error_code"] != Error.UNKNOWN_TOPIC_OR_PARTITION:
            await delete_topic(target, name)
            raise response.failure("the topic exists, although it was only validated")


@check("topics/more-partitions", "KIP-195", _CONTROL, writes=True)
async def check_add_partitions(target: Target) -> None:
    """CreatePartitions adds partitions; a number that is not larger returns INVALID_PARTITIONS.

    Tools that raise the number to a given one whenever they run treat the error as success.
    """
    version = min(1, target.version("CreatePartitions"))
    async with scratch_topic(target) as topic, target.connection() as connection:
        for count, expected in ((1, Error.INVALID_PARTITIONS), (3, Error.NONE)):
            topic_request = {"name": topic.name, "count": count, "assignments": None}
            response = await target.request(
                connection, "CreatePartitions", version, topics=[topic_request], timeout_ms=10_000
            )
            expect(response.body["results"][0]["error_code"], expected, f"CreatePartitions of 1 to {count}")


@check("topics/delete-unknown", _CONTROL, writes=True)
async def check_delete_unknown_topic(target: Target) -> None:
    """DeleteTopics of a name that does not exist returns UNKNOWN_TOPIC_OR_PARTITION.

    Cleanup scripts ignore only this error.
    """
    name = target.new_name("missing")
    async with target.connection() as connection:
        version = min(5, target.version("DeleteTopics"))
        delete_response = await target.request(
            connection, "DeleteTopics", version, topic_names=[name], timeout_ms=10_000
        )
        if [response["name"] for response in delete_response.body["responses"]] != [name]:
            raise delete_response.failure("the response does not have exactly the topic of the request")
        code = delete_response.body["responses"][0]["error_code"]
        expect(code, Error.UNKNOWN_TOPIC_OR_PARTITION, "DeleteTopics of an unknown topic")
