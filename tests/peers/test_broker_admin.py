"""The built-in broker answers admin requests as real Kafka of the release that it stands in for does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kproxy.broker import Broker
from kproxy.broker.errors import Error
from tests.kproxy.broker.socket_client import SocketClient
from tests.peers.kafka import RELEASES, Kafka, missing
from tests.peers.questions import At

pytestmark = [pytest.mark.peers, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
#: Kind of a resource, and whether it has a name -> the source of a config that was set for it. A config that was not
#: set has another one, even where its value is the same: in Kafka 4, the default of the cluster for a topic.
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
async def test_answers_like_kafka(release: str, tmp_path: Path) -> None:
    kafka = Kafka(release, tmp_path / "kafka", {}, {})
    try:
        real = await asked(kafka.direct[1])
    finally:
        kafka.kill()
    async with Broker(release=release) as broker:
        ours = await asked(broker.ports[0])
    assert len(real) > 250
    assert {label: (real[label], ours[label]) for label in real if real[label] != ours[label]} == {}


async def asked(port: int) -> dict[str, Any]:
    """The answers of a broker without topics, by what was asked."""
    ask = SocketClient(At(port), "questions")  # type: ignore[arg-type]
    versions = {key["api_key"]: key for key in (await ask("ApiVersions", 0))["api_keys"]}
    answers = await creations(ask, versions[19]["min_version"])
    answers |= await coordinators(ask)
    answers |= await unknown_topics(ask)
    answers |= await configs(ask)
    await ask.hang_up()
    return answers


async def creations(ask: SocketClient, lowest: int) -> dict[str, Any]:
    creations = {}
    for version in range(max(lowest, 1), 8):
        for partitions, factor in ((-1, -1), (-1, 1), (2, -1), (0, 1), (-2, 1), (1, 0), (1, -2)):
            name = f"made-{version}-{partitions}-{factor}"
            topic = {"name": name, "num_partitions": partitions, "replication_factor": factor}
            body = {"topics": [topic | {"assignments": [], "configs": []}], "timeout_ms": 10_000}
            [made] = (await ask("CreateTopics", version, body))["topics"]
            creations[name] = made["error_code"], made["error_message"], made.get("num_partitions")
    return creations


async def coordinators(ask: SocketClient) -> dict[str, Any]:
    coordinators = {}
    for version in range(1, 7):
        for kind, key in ((0, "g"), (0, ""), (1, "x"), (1, ""), (2, "bad"), (7, "x")):
            if kind == 2 and version == 6:
                continue  # 3.9.1 looks for a topic that it never has
            body = {"key_type": kind, "key": key} if version < 4 else {"key_type": kind, "coordinator_keys": [key]}
            async with asyncio.timeout(60):
                while True:
                    answer = await ask("FindCoordinator", version, body)
                    [coordinator] = answer.get("coordinators", [answer])
                    if coordinator["error_code"] != Error.COORDINATOR_NOT_AVAILABLE:
                        break
                    await asyncio.sleep(0.1)
            coordinators[f"find v{version} {kind} {key}"] = coordinator["error_code"], coordinator["error_message"]
    return coordinators


async def unknown_topics(ask: SocketClient) -> dict[str, Any]:
    """What is said of a topic until it is there."""
    topics = {}
    for version in range(13):
        said = []
        async with asyncio.timeout(60):
            while not said or said[-1]:
                [topic] = (await ask("Metadata", version, {"topics": [{"name": f"asked-{version}"}]}))["topics"]
                said.append(topic["error_code"])
                await asyncio.sleep(0.01)
        topics[f"asked v{version}"] = list(dict.fromkeys(said))
    return topics


async def configs(ask: SocketClient) -> dict[str, Any]:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    await ask("CreateTopics", 7, {"topics": [topic], "timeout_ms": 10_000})
    configs: dict[str, Any] = {"configs of a topic": await described(ask, TOPIC, "t")}
    brokers = await described(ask, BROKER, "1")
    configs["configs of a broker"] = sorted(name for name in brokers if not name.startswith("group.consumer.migration"))
    for kind, name in RESOURCES:
        for key, value in CONFIGS:
            for how, operation in (("set", 0), ("delete", 1)):
                label = f"{how} {kind} {name!r} {key}={value}"
                config = {"name": key, "value": value if how == "set" else None, "config_operation": operation}
                resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
                body = {"resources": [resource], "validate_only": False}
                [answer] = (await ask("IncrementalAlterConfigs", 1, body))["responses"]
                configs[label] = answer["error_code"]
                if how == "set" and not answer["error_code"]:
                    configs[f"{label}, described"] = await set_(ask, kind, name, key, value)
    return configs


async def set_(ask: SocketClient, kind: int, name: str, key: str, wanted: str) -> Any:
    """A config that was set, as the broker describes it; without the type if it is one of client metrics.

    The controller stores a config, and the broker applies it a little later: until then it describes what was set
    before, or a default. The value of a sensitive config is never shown. Until 4.0, Kafka did not report the types of
    the configs of client metrics.
    """
    async with asyncio.timeout(60):
        while True:
            value, source, sensitive, *more = (await described(ask, kind, name)).get(key, (None, 0, False))
            if source == SOURCES[kind, bool(name)] and (value == wanted or sensitive):
                return value, source, sensitive, *(more[:1] if kind == METRICS else more)
            await asyncio.sleep(0.05)


async def described(ask: SocketClient, kind: int, name: str) -> dict[str, Any]:
    """The configs of a resource, which is waited for."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    async with asyncio.timeout(60):
        while True:
            [result] = (await ask("DescribeConfigs", 4, {"resources": [resource]}))["results"]
            if result["error_code"] != Error.UNKNOWN_TOPIC_OR_PARTITION:
                break
            await asyncio.sleep(0.05)
    about = ("value", "config_source", "is_sensitive", "read_only", "config_type")
    return {config["name"]: tuple(config[what] for what in about) for config in result["configs"]}
