"""Config requests. The expected responses are what real Kafka brokers returned for the same requests."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.schemas.lines import line, lines
from kproxy.broker.errors import Error
from kproxy.broker.log.settings import settings
from tests.kproxy.broker.socket_client import SocketClient, broker_client

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


async def describe(client: SocketClient, kind: int, name: str, *keys: str) -> Any:
    body = {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}],
        "include_synonyms": True,
    }
    [result] = (await client("DescribeConfigs", 4, body))["results"]
    return result


async def alter(client: SocketClient, kind: int, name: str, *changes: tuple[str, int, str | None]) -> Any:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    body = {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}
    [response] = (await client("IncrementalAlterConfigs", 1, body))["responses"]
    return response["error_code"], response["error_message"]


def values(result: Any) -> dict[str, tuple[str | None, int]]:
    return {config["name"]: (config["value"], config["config_source"]) for config in result["configs"]}


async def test_topic_has_kafkas_defaults_and_its_own_settings() -> None:
    async with broker_client(topics={"orders": 1}) as client:
        old_values = values(await describe(client, TOPIC, "orders"))
        assert await alter(client, TOPIC, "orders", ("retention.ms", 0, "1000")) == (0, None)
        assert await alter(client, BROKER, "", ("log.retention.bytes", 0, "77")) == (0, None)
        new_values = values(await describe(client, TOPIC, "orders"))
        description = await describe(client, TOPIC, "orders", "retention.bytes", "no.such.config")
    assert len(old_values) == 37
    assert old_values["retention.ms"] == ("604800000", 5)
    assert new_values["retention.ms"] == ("1000", 1)
    [config] = description["configs"]
    assert config["synonyms"] == [
        {"name": "log.retention.bytes", "value": "77", "source": 3},
        {"name": "log.retention.bytes", "value": "-1", "source": 5},
    ]


async def test_broker_configs_report_their_source() -> None:
    async with broker_client(brokers=2, configs={"num.partitions": "3"}) as client:
        other_broker_configs = values(await describe(client, BROKER, "2"))
        description = await describe(client, BROKER, "1")
        selected = values(await describe(client, BROKER, "1", "advertised.listeners", "num.partitions"))
    assert other_broker_configs == {}
    assert description["error_code"] == Error.NONE
    assert selected == {
        "advertised.listeners": (f"PLAINTEXT://127.0.0.1:{client.broker.ports[0]}", 4),
        "num.partitions": ("3", 4),
    }


async def test_values_are_checked_as_in_kafka() -> None:
    async with broker_client(topics={"orders": 1}) as client:
        assert await alter(client, TOPIC, "orders", ("retention.ms", 0, "abc")) == (
            Error.INVALID_CONFIG,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        )
        assert await alter(client, TOPIC, "orders", ("retention.ms", 0, "-5")) == (
            Error.INVALID_CONFIG,
            "Invalid value -5 for configuration retention.ms: Value must be at least -1",
        )
        assert await alter(client, TOPIC, "orders", ("preallocate", 0, "yes")) == (
            Error.INVALID_CONFIG,
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        )
        assert await alter(client, TOPIC, "orders", ("nope", 0, "1")) == (
            Error.INVALID_CONFIG,
            "Unknown topic config name: nope",
        )
        assert await alter(client, TOPIC, "orders", ("retention.ms", 2, "3")) == (
            Error.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        )
        assert await alter(client, TOPIC, "orders", ("retention.ms", 0, None)) == (
            Error.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        )
        assert await alter(client, BROKER, "1", ("num.partitions", 0, "2")) == (
            Error.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        )
        assert await alter(client, BROKER, "1", ("log.retention.ms", 0, "abc")) == (
            Error.INVALID_REQUEST,
            "Invalid value abc for configuration log.retention.ms: Not a number of type LONG",
        )
        assert await alter(client, TOPIC, "orders", ("remote.storage.enable", 0, "true")) == (
            Error.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
        assert (await alter(client, TOPIC, "nope", ("retention.ms", 0, "1")))[0] == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await alter(client, TOPIC, "orders", ("a", 0, "1"), ("a", 0, "2")))[0] == Error.INVALID_REQUEST
        assert (await alter(client, LOGGER, "1", ("root", 0, "LOUD")))[0] == Error.INVALID_CONFIG
        assert (await alter(client, 99, "orders", ("a", 0, "1")))[0] == Error.INVALID_REQUEST
        assert values(await describe(client, TOPIC, "orders"))["retention.ms"][1] == 5


async def test_list_configs_can_be_appended_to_and_subtracted_from() -> None:
    async with broker_client(topics={"orders": 1}) as client:
        await alter(client, TOPIC, "orders", ("cleanup.policy", 2, "compact"))
        both_policies = values(await describe(client, TOPIC, "orders"))["cleanup.policy"]
        await alter(client, TOPIC, "orders", ("cleanup.policy", 3, "delete"))
        remaining_policy = values(await describe(client, TOPIC, "orders"))["cleanup.policy"]
        await alter(client, TOPIC, "orders", ("cleanup.policy", 1, None))
        default_policy = values(await describe(client, TOPIC, "orders"))["cleanup.policy"]
    assert both_policies == ("delete,compact", 1)
    assert remaining_policy == ("compact", 1)
    assert default_policy == ("delete", 5)


async def test_alter_configs_replaces_all_configs() -> None:
    async with broker_client(topics={"orders": 1}) as client:
        await alter(client, TOPIC, "orders", ("retention.ms", 0, "1000"))
        resource = {
            "resource_type": TOPIC,
            "resource_name": "orders",
            "configs": [{"name": "retention.bytes", "value": "5"}],
        }
        await client("AlterConfigs", 2, {"resources": [resource], "validate_only": True})
        validated_values = values(await describe(client, TOPIC, "orders"))
        await client("AlterConfigs", 2, {"resources": [resource]})
        replaced_values = values(await describe(client, TOPIC, "orders"))
    assert validated_values["retention.ms"] == ("1000", 1)
    assert replaced_values["retention.ms"] == ("604800000", 5)
    assert replaced_values["retention.bytes"] == ("5", 1)


async def test_lists_the_resources_that_have_configs() -> None:
    async with broker_client(topics={"orders": 1}) as client:
        assert await alter(client, GROUP, "g", ("consumer.session.timeout.ms", 0, "50000")) == (0, None)
        assert await alter(client, METRICS, "m", ("interval.ms", 0, "60000")) == (0, None)
        body = await client("ListConfigResources", 1, {"resource_types": []})
        metrics = await client("ListConfigResources", 0, {})
        wrong_type_response = await client("ListConfigResources", 1, {"resource_types": [99]})
    named_resources = {(resource["resource_type"], resource["resource_name"]) for resource in body["config_resources"]}
    assert named_resources == {(TOPIC, "orders"), (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g")}
    assert [resource["resource_name"] for resource in metrics["config_resources"]] == ["m"]
    assert wrong_type_response["error_code"] == Error.UNSUPPORTED_VERSION


async def set_and_describe(client: SocketClient, kind: int, name: str, key: str, value: str) -> Any:
    """Set a config, describe it and remove it; return the description, or the error and its message."""
    error, message = await alter(client, kind, name, (key, 0, value))
    if error:
        return error, message
    [config] = (await describe(client, kind, name, key))["configs"]
    await alter(client, kind, name, (key, 1, None))
    assert all(
        other["config_source"] != config["config_source"]
        for other in (await describe(client, kind, name, key))["configs"]
    )
    return config["value"], config["config_source"], config["is_sensitive"], config["read_only"], config["config_type"]


async def test_broker_accepts_unknown_configs_and_hides_their_values() -> None:
    async with broker_client() as client:
        for key, value in (("cleanup.policy", "compact"), ("interval.ms", "1"), ("no.such.config", "")):
            for name, source in (("1", 2), ("", 3)):
                assert await set_and_describe(client, BROKER, name, key, value) == (None, source, True, True, 0)
        keystore = "listener.name.internal.ssl.keystore.location"
        assert await set_and_describe(client, BROKER, "1", keystore, "/tmp/x") == ("/tmp/x", 2, False, True, 2)
        assert await alter(client, BROKER, "", (keystore, 0, "/tmp/x")) == (
            Error.INVALID_REQUEST,
            f"Cannot update these configs at default cluster level, broker id must be specified: [{keystore}]",
        )


@pytest.mark.parametrize(
    ("kind", "name", "answer"),
    [
        (TOPIC, "orders", (Error.INVALID_CONFIG, "Unknown topic config name: num.partitions")),
        (GROUP, "g", (Error.INVALID_CONFIG, "Unknown group config name: num.partitions")),
        (METRICS, "m", (Error.INVALID_REQUEST, "Unknown client metrics configuration: num.partitions")),
        (LOGGER, "1", (Error.INVALID_CONFIG, "Logger num.partitions does not exist!")),
    ],
)
async def test_other_resources_reject_unknown_configs(kind: int, name: str, answer: Any) -> None:
    async with broker_client(topics={"orders": 1}) as client:
        assert await alter(client, kind, name, ("num.partitions", 0, "2")) == answer
        deleted = await alter(client, kind, name, ("num.partitions", 1, None))
    assert deleted == (answer if kind == LOGGER else (0, None))


async def test_alter_configs_rejects_loggers_and_old_brokers() -> None:
    for release, kind, version in (("4.3", LOGGER, 2), ("1.0", BROKER, 0)):
        body = {"resources": [{"resource_type": kind, "resource_name": "1", "configs": []}]}
        async with broker_client(release=release) as client:
            [response] = (await client("AlterConfigs", version, body))["responses"]
        assert response["error_code"] == Error.INVALID_REQUEST


async def test_client_metrics_accept_only_valid_match_patterns() -> None:
    async with broker_client() as client:
        assert await alter(client, METRICS, "m", ("match", 0, "client_id=a.*,client_source_port=1")) == (0, None)
        assert await alter(client, METRICS, "m", ("match", 0, "client_id=a,foo")) == (
            Error.INVALID_CONFIG,
            "Illegal client matching pattern: foo",
        )


@pytest.mark.parametrize("release", ["4.0", "4.1", "4.4", None])
async def test_min_insync_replicas_is_a_cluster_config_since_4_1(release: str | None) -> None:
    key = "min.insync.replicas"
    async with broker_client(release=release, topics={"orders": 1}, configs={key: "2"}) as client:
        descriptions = [
            (await describe(client, *resource, key))["configs"] for resource in ((TOPIC, "orders"), (BROKER, "1"))
        ]
        cluster_default = (await describe(client, BROKER, "", key))["configs"]
        altered_on_broker = await alter(client, BROKER, "1", (key, 0, "1"))
        removal_result = await alter(client, BROKER, "", (key, 1, None))
        replace_response = await client(
            "AlterConfigs", 2, {"resources": [{"resource_type": BROKER, "resource_name": "", "configs": []}]}
        )
        change_result = await alter(client, BROKER, "", (key, 0, "1"))
        new_values = values(await describe(client, TOPIC, "orders", key))
    static_synonyms = [{"name": key, "value": "2", "source": 4}, {"name": key, "value": "1", "source": 5}]
    for [config] in descriptions:
        cluster_synonyms = [] if release == "4.0" else [{"name": key, "value": "2", "source": 3}]
        assert config["synonyms"] == cluster_synonyms + static_synonyms
        assert (config["value"], config["config_source"]) == ("2", (cluster_synonyms + static_synonyms)[0]["source"])
    assert (change_result, new_values) == ((0, None), {key: ("1", 3)})
    if release == "4.0":
        assert (altered_on_broker, removal_result, replace_response["responses"][0]["error_code"]) == (
            (0, None),
            (0, None),
            0,
        )
        assert cluster_default == []
    else:
        assert altered_on_broker == (40, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
        assert removal_result == (40, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
        assert replace_response["responses"][0]["error_code"] == Error.INVALID_CONFIG
        assert [(config["value"], config["config_source"]) for config in cluster_default] == [("2", 3)]


#: The first and last release of topic configs, most of which came or went after 0.11.
TOPIC_CONFIGS = {
    "message.downconversion.enable": ("2.0", "3.9"),
    "message.format.version": ("0.11.0", "3.9"),
    "message.timestamp.difference.max.ms": ("0.11.0", "3.9"),
    "max.compaction.lag.ms": ("2.3", "4.4"),
    "message.timestamp.before.max.ms": ("3.6", "4.4"),
    "message.timestamp.after.max.ms": ("3.6", "4.4"),
    "local.retention.ms": ("3.6", "4.4"),
    "compression.zstd.level": ("3.8", "4.4"),
    "remote.log.copy.disable": ("3.9", "4.4"),
    "retention.ms": ("0.11.0", "4.4"),
}


@pytest.mark.parametrize("release", [release for release in lines() if 32 in line(release).served])
async def test_release_has_its_own_topic_configs(release: str) -> None:
    highest = line(release).served[32][1]
    resources = [{"resource_type": 2, "resource_name": "orders", "configuration_keys": None}]
    async with broker_client(release=release, topics={"orders": 1}) as client:
        [result] = (await client("DescribeConfigs", highest, {"resources": resources}))["results"]
        shown_values = {config["name"]: config["value"] for config in result["configs"]}
        for key, (first, last) in TOPIC_CONFIGS.items():
            exists = line(release).is_at_least(first) and line(last).is_at_least(release)
            assert (key in shown_values) == exists, key
            configs = [{"name": key, "value": "1" if key.endswith("ms") else shown_values.get(key, "x")}]
            topic = {"name": key, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": configs}
            [created] = (await client("CreateTopics", 2, {"topics": [topic]}))["topics"]
            assert created["error_code"] == (Error.NONE if exists else Error.INVALID_CONFIG), key
    assert shown_values["max.message.bytes"] == ("1048588" if line(release).is_at_least("2.5") else "1000012")
    assert shown_values.get("message.timestamp.after.max.ms") in (
        None,
        "3600000" if line(release).is_at_least("4.0") else str(2**63 - 1),
    )


@pytest.mark.parametrize("release", ["2.4", "3.9"])
async def test_brokers_have_the_configs_of_their_release(release: str) -> None:
    async with broker_client(release=release) as client:
        resources = [{"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}]
        [result] = (await client("DescribeConfigs", 2, {"resources": resources}))["results"]
    names = {config["name"] for config in result["configs"]}
    assert ("process.roles" in names) == (release == "3.9")
    assert "zookeeper.connect" in names
    assert "group.share.max.share.sessions" not in names


@pytest.mark.parametrize(
    ("release", "kinds"),
    [("2.3", {TOPIC, BROKER}), ("2.4", {TOPIC, BROKER, LOGGER}), ("3.7", {TOPIC, BROKER, LOGGER, METRICS}),
     ("4.0", {TOPIC, BROKER, LOGGER, METRICS, GROUP})],
)  # fmt: skip
async def test_only_resource_types_of_the_release_have_configs(release: str, kinds: set[int]) -> None:
    async with broker_client(release=release, topics={"1": 1}) as client:
        for kind in (TOPIC, BROKER, LOGGER, METRICS, GROUP):
            resources = [{"resource_type": kind, "resource_name": "1", "configuration_keys": None}]
            [result] = (await client("DescribeConfigs", 1, {"resources": resources}))["results"]
            assert result["error_code"] == (Error.NONE if kind in kinds else Error.INVALID_REQUEST)


@pytest.mark.parametrize("release", ["2.4", "3.5", "3.9", "4.0"])
async def test_one_config_bounds_record_timestamps_on_both_sides_until_3_9(release: str) -> None:
    configs = {"log.message.timestamp.difference.max.ms": "60000"}
    async with broker_client(release=release, topics={"t": 1}, configs=configs) as client:
        log_settings = settings(client.broker.cluster, "t")
    expected = (60000, 60000) if release != "4.0" else (2**63 - 1, 3_600_000)
    assert (log_settings.timestamp_before_max_ms, log_settings.timestamp_after_max_ms) == expected


async def test_newer_timestamp_configs_take_precedence() -> None:
    configs = {"log.message.timestamp.difference.max.ms": "60000", "log.message.timestamp.before.max.ms": "5"}
    async with broker_client(release="3.9", topics={"t": 1}, configs=configs) as client:
        log_settings = settings(client.broker.cluster, "t")
    assert (log_settings.timestamp_before_max_ms, log_settings.timestamp_after_max_ms) == (5, 60000)


async def test_create_topics_rejects_a_config_without_a_value() -> None:
    for release, error in (("2.5", -1), ("2.6", Error.INVALID_REQUEST), ("3.3", Error.INVALID_CONFIG)):
        configs = [{"name": "retention.ms", "value": None}]
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": configs}
        async with broker_client(release=release) as client:
            [created] = (await client("CreateTopics", 2, {"topics": [topic]}))["topics"]
        assert created["error_code"] == error
