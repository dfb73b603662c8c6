"""The built-in broker answers admin requests like real Kafka of the release that it emulates."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kproxy.broker import Broker
from kproxy.broker.errors import Error
from tests.kproxy.broker.socket_client import SocketClient
from tests.peers.kafka import RELEASES, Kafka, missing
from tests.peers.questions import BrokerAddress

pytestmark = [pytest.mark.peers, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
#: The source of a config that was set, by the type of its resource and whether that has a name. A config that was not
#: set has a different source even if its value is the same; for topics in Kafka 4, it is the cluster's default.
SOURCES = {(TOPIC, True): 1, (BROKER, True): 2, (BROKER, False): 3, (METRICS, True): 7, (GROUP, True): 8}
RESOURCES = ((TOPIC, "t"), (BROKER, "1"), (BROKER, ""), (METRICS, "m"), (GROUP, "g"), (GROUP, ""), (99, "x"))
CONFIGS = (
    ("cleanup.policy", "compact"), ("retention.ms", "1000"), ("min.insync.replicas", "1"), ("no.such.config", "1"),
    ("log.retention.ms", "100000"), ("log.retention.ms", "many"), ("num.partitions", "2"), ("interval.ms", "1000"),
    ("message.timestamp.difference.max.ms", "1000"), ("match", "client_id=a"), ("match", "nobody"),
    ("segment.bytes", "100"), ("remote.storage.enable", "true"),
    ("listener.name.x.ssl.keystore.location", "/tmp/x"),
)  # fmt: skip


@pytest.mark.parametrize("release", RELEASES)
async def test_admin_responses_match_kafka(release: str, tmp_path: Path) -> None:
    kafka = Kafka(release, tmp_path / "kafka", {}, {})
    try:
        kafka_results = await collect_results(kafka.direct[1])
    finally:
        kafka.kill()
    async with Broker(release=release) as broker:
        broker_results = await collect_results(broker.ports[0])
    assert len(kafka_results) > 250
    assert {
        label: (kafka_results[label], broker_results[label])
        for label in kafka_results
        if kafka_results[label] != broker_results[label]
    } == {}


async def collect_results(port: int) -> dict[str, Any]:
    """Return the results of requests to a broker without topics, by label."""
    client = SocketClient(BrokerAddress(port), "questions")  # type: ignore[arg-type]
    versions = {key["api_key"]: key for key in (await client("ApiVersions", 0))["api_keys"]}
    results = await topic_creations(client, versions[19]["min_version"])
    results |= await coordinator_lookups(client)
    results |= await unknown_topics(client)
    results |= await config_changes(client)
    await client.hang_up()
    return results


async def topic_creations(client: SocketClient, min_version: int) -> dict[str, Any]:
    results = {}
    for version in range(max(min_version, 1), 8):
        for partitions, factor in ((-1, -1), (-1, 1), (2, -1), (0, 1), (-2, 1), (1, 0), (1, -2)):
            name = f"made-{version}-{partitions}-{factor}"
            topic = {"name": name, "num_partitions": partitions, "replication_factor": factor}
            body = {"topics": [topic | {"assignments": [], "configs": []}], "timeout_ms": 10_000}
            [created] = (await client("CreateTopics", version, body))["topics"]
            results[name] = created["error_code"], created["error_message"], created.get("num_partitions")
    return results


async def coordinator_lookups(client: SocketClient) -> dict[str, Any]:
    results = {}
    for version in range(1, 7):
        for kind, key in ((0, "g"), (0, ""), (1, "x"), (1, ""), (2, "bad"), (7, "x")):
            if kind == 2 and version == 6:
                continue  # 3.9.1 looks for a topic that never exists
            body = {"key_type": kind, "key": key} if version < 4 else {"key_type": kind, "coordinator_keys": [key]}
            async with asyncio.timeout(60):
                while True:
                    response = await client("FindCoordinator", version, body)
                    [coordinator] = response.get("coordinators", [response])
                    if coordinator["error_code"] != Error.COORDINATOR_NOT_AVAILABLE:
                        break
                    await asyncio.sleep(0.1)
            results[f"find v{version} {kind} {key}"] = coordinator["error_code"], coordinator["error_message"]
    return results


async def unknown_topics(client: SocketClient) -> dict[str, Any]:
    """Return the error codes of auto-created topics until they exist, by Metadata version."""
    results = {}
    for version in range(13):
        error_codes = []
        async with asyncio.timeout(60):
            while not error_codes or error_codes[-1]:
                [topic] = (await client("Metadata", version, {"topics": [{"name": f"asked-{version}"}]}))["topics"]
                error_codes.append(topic["error_code"])
                await asyncio.sleep(0.01)
        results[f"asked v{version}"] = list(dict.fromkeys(error_codes))
    return results


async def config_changes(client: SocketClient) -> dict[str, Any]:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    await client("CreateTopics", 7, {"topics": [topic], "timeout_ms": 10_000})
    results: dict[str, Any] = {"configs of a topic": await describe_configs(client, TOPIC, "t")}
    brokers = await describe_configs(client, BROKER, "1")
    results["configs of a broker"] = sorted(name for name in brokers if not name.startswith("group.consumer.migration"))
    for kind, name in RESOURCES:
        for key, value in CONFIGS:
            for action, operation in (("set", 0), ("delete", 1)):
                label = f"{action} {kind} {name!r} {key}={value}"
                config = {"name": key, "value": value if action == "set" else None, "config_operation": operation}
                resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
                body = {"resources": [resource], "validate_only": False}
                [response] = (await client("IncrementalAlterConfigs", 1, body))["responses"]
                results[label] = response["error_code"]
                if action == "set" and not response["error_code"]:
                    results[f"{label}, described"] = await wait_for_config(client, kind, name, key, value)
    return results


async def wait_for_config(client: SocketClient, kind: int, name: str, key: str, expected: str) -> Any:
    """Wait until the broker describes a config that was set; return the description, for client metrics without type.

    The broker applies a config shortly after the controller has stored it. Until then, it describes the previous value
    or a default. The value of a sensitive config is never shown. Before 4.0, Kafka did not report the types of client
    metrics configs.
    """
    async with asyncio.timeout(60):
        while True:
            value, source, sensitive, *other_columns = (await describe_configs(client, kind, name)).get(
                key, (None, 0, False)
            )
            if source == SOURCES[kind, bool(name)] and (value == expected or sensitive):
                return value, source, sensitive, *(other_columns[:1] if kind == METRICS else other_columns)
            await asyncio.sleep(0.05)


async def describe_configs(client: SocketClient, kind: int, name: str) -> dict[str, Any]:
    """Wait for a resource and return its configs."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    async with asyncio.timeout(60):
        while True:
            [result] = (await client("DescribeConfigs", 4, {"resources": [resource]}))["results"]
            if result["error_code"] != Error.UNKNOWN_TOPIC_OR_PARTITION:
                break
            await asyncio.sleep(0.05)
    columns = ("value", "config_source", "is_sensitive", "read_only", "config_type")
    return {config["name"]: tuple(config[column] for column in columns) for config in result["configs"]}
