"""Run one workload with confluent-kafka (librdkafka) until the process is killed.

``python -m tests.faults.clients.librdkafka HOST:PORT WORKLOAD``. It never checks a result: the test
does. A workload of the admin client ends after its call.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

TOPIC: Final = "orders"
GROUP: Final = "shop"
Settings = dict[str, Any]
Call = Callable[[AdminClient], Any]


def produce(base: Settings, **more: Any) -> None:
    """Produce twenty records per second."""
    producer = Producer(base | {"linger.ms": 5} | more)
    for number in itertools.count():
        producer.produce(TOPIC, f"order {number}", f"key {number}")
        producer.poll(0)
        time.sleep(0.05)


def transactions(base: Settings) -> None:
    """Commit one transaction after another."""
    producer = _transactional_producer(base)
    for number in itertools.count():
        with suppress(KafkaException):
            producer.begin_transaction()
        with suppress(KafkaException):
            producer.produce(TOPIC, f"order {number}")
            producer.commit_transaction(30)
        time.sleep(0.2)


def aborted_transactions(base: Settings) -> None:
    """Abort three of four transactions: a producer that commits none has a fault of its own (T004)."""
    producer = _transactional_producer(base)
    for number in itertools.count(1):
        with suppress(KafkaException):
            producer.begin_transaction()
            producer.produce(TOPIC, f"order {number}")
            producer.flush(1)
            if number % 4:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
        time.sleep(0.2)


def transactional_offsets(base: Settings) -> None:
    """Read, produce and commit the offsets in one transaction."""
    _fill(base)
    consumer = Consumer(base | _GROUP | {"enable.auto.commit": False})
    consumer.subscribe([TOPIC])
    producer = _transactional_producer(base)
    while True:
        message = consumer.poll(1)
        if message is None or message.error():
            continue
        with suppress(KafkaException):
            producer.begin_transaction()
            producer.produce("copies", message.value())
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)


def _transactional_producer(base: Settings) -> Producer:
    producer = Producer(base | {"transactional.id": "checkout"})
    for _ in range(3):
        with suppress(KafkaException):
            producer.init_transactions(30)
            break
    return producer


def consume(base: Settings, **more: Any) -> None:
    """Consume in a group, and commit each record."""
    _fill(base)
    consumer = Consumer(base | _GROUP | {"enable.auto.commit": False} | more)
    consumer.subscribe([TOPIC])
    while True:
        message = consumer.poll(1)
        if message is not None and not message.error():
            with suppress(KafkaException):
                consumer.commit(message, asynchronous=False)


def consume_next_generation(base: Settings) -> None:
    """Consume in a consumer group with the protocol of KIP-848."""
    _fill(base)
    consumer = Consumer(base | {"group.id": GROUP, "auto.offset.reset": "earliest", "group.protocol": "consumer"})
    consumer.subscribe([TOPIC])
    while True:
        consumer.poll(1)


def come_and_go(base: Settings) -> None:
    """Join a group, read for a while and leave it, repeatedly."""
    _fill(base)
    while True:
        consumer = Consumer(base | _GROUP)
        consumer.subscribe([TOPIC])
        for _ in range(3):
            consumer.poll(0.5)
        consumer.close()


def read(base: Settings) -> None:
    """Read partitions without a group."""
    _fill(base)
    consumer = Consumer(base | {"group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(2)])
    while True:
        consumer.poll(1)


def watermarks(base: Settings) -> None:
    """Query the first and the last offset repeatedly."""
    consumer = Consumer(base | {"group.id": "none"})
    while True:
        with suppress(KafkaException):
            consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), 12)
        time.sleep(0.5)


def _fill(base: Settings) -> None:
    producer = Producer(base | {"client.id": "filler"})
    for number in range(40):
        producer.produce(TOPIC, f"order {number}", partition=number % 2)
    producer.flush(2)


_GROUP: Final = {
    "group.id": GROUP, "auto.offset.reset": "earliest", "session.timeout.ms": 6000, "heartbeat.interval.ms": 500,
}  # fmt: skip


def _acl() -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip


def _acl_filter() -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )


def _config_edits(*entries: ConfigEntry) -> list[ConfigResource]:
    entries = entries or (ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET),)
    return [ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=list(entries))]


def _full_config() -> list[ConfigResource]:
    return [ConfigResource(ConfigResource.Type.TOPIC, TOPIC, {"retention.ms": "60000"})]


_PARTITION = TopicPartition(TOPIC, 0)
_CALLS: Final[dict[str, Call]] = {
    "CreateTopics": lambda admin: admin.create_topics([NewTopic("invoices", 2, 1)]),
    "DeleteTopics": lambda admin: admin.delete_topics([TOPIC]),
    "CreatePartitions": lambda admin: admin.create_partitions([NewPartitions(TOPIC, 4)]),
    "DeleteRecords": lambda admin: admin.delete_records([TopicPartition(TOPIC, 0, 0)]),
    "DescribeConfigs": lambda admin: admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, TOPIC)]),
    "AlterConfigs": lambda admin: admin.alter_configs(_full_config()),
    "IncrementalAlterConfigs": lambda admin: admin.incremental_alter_configs(_config_edits()),
    "ListGroups": lambda admin: admin.list_consumer_groups(),
    "DescribeGroups": lambda admin: admin.describe_consumer_groups([GROUP]),
    "DeleteGroups": lambda admin: admin.delete_consumer_groups([GROUP]),
    "OffsetFetch": lambda admin: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]),
    "OffsetCommit": lambda admin: admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0, 1)])]
    ),
    "DescribeAcls": lambda admin: admin.describe_acls(_acl_filter()),
    "CreateAcls": lambda admin: admin.create_acls([_acl()]),
    "DeleteAcls": lambda admin: admin.delete_acls([_acl_filter()]),
    "ListOffsets": lambda admin: admin.list_offsets(
        {_PARTITION: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED
    ),
    "ElectLeaders": lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [_PARTITION]),
    "DescribeUserScramCredentials": lambda admin: admin.describe_user_scram_credentials(["alice"]),
    "AlterUserScramCredentials": lambda admin: admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"secret")]
    ),
    "Metadata": lambda admin: admin.describe_topics(TopicCollection([TOPIC])),
}


def administer(base: Settings, name: str) -> None:
    """Make one call of the admin client."""
    admin = AdminClient(base)
    result = _CALLS[name](admin)
    for future in result.values() if isinstance(result, dict) else [result]:
        with suppress(Exception):
            future.result(30)


_WORKLOADS: Final[dict[str, Callable[[Settings], None]]] = {
    "produce": produce,
    "idempotent": lambda base: produce(base, **{"enable.idempotence": True}),
    "transactions": transactions,
    "aborts": aborted_transactions,
    "offsets": transactional_offsets,
    "consume": consume,
    "static": lambda base: consume(base, **{"group.instance.id": "till-1"}),
    "next-generation": consume_next_generation,
    "come-and-go": come_and_go,
    "read": read,
    "watermarks": watermarks,
}


def main(bootstrap: str, workload: str, *security: str) -> None:
    """Run a workload."""
    base: Settings = {"bootstrap.servers": bootstrap, "client.id": "shop", "log_level": 0}
    if security:
        mechanism, user, password = security
        base |= {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.username": user,
            "sasl.password": password,
        }  # fmt: skip
    if workload in _CALLS:
        administer(base, workload)
    else:
        _WORKLOADS[workload](base)


if __name__ == "__main__":
    main(*sys.argv[1:])
