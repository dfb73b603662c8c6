"""Configs through requests; the expected answers are those of a real Kafka 4.3.1 to the same requests."""

from __future__ import annotations

from typing import Any

from kproxy.broker.errors import Error
from tests.kproxy.broker.asking import Asking, asked

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


async def describe(ask: Asking, kind: int, name: str, *keys: str) -> Any:
    body = {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}],
        "include_synonyms": True,
    }
    [result] = (await ask("DescribeConfigs", 4, body))["results"]
    return result


async def alter(ask: Asking, kind: int, name: str, *changes: tuple[str, int, str | None]) -> Any:
    configs = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
    body = {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}
    [response] = (await ask("IncrementalAlterConfigs", 1, body))["responses"]
    return response["error_code"], response["error_message"]


def values(result: Any) -> dict[str, tuple[str | None, int]]:
    return {each["name"]: (each["value"], each["config_source"]) for each in result["configs"]}


async def test_a_topic_has_kafkas_defaults_and_what_was_set() -> None:
    async with asked(topics={"orders": 1}) as ask:
        before = values(await describe(ask, TOPIC, "orders"))
        assert await alter(ask, TOPIC, "orders", ("retention.ms", 0, "1000")) == (0, None)
        assert await alter(ask, BROKER, "", ("log.retention.bytes", 0, "77")) == (0, None)
        after = values(await describe(ask, TOPIC, "orders"))
        found = await describe(ask, TOPIC, "orders", "retention.bytes", "no.such.config")
    assert len(before) == 33
    assert before["retention.ms"] == ("604800000", 5)
    assert after["retention.ms"] == ("1000", 1)
    [config] = found["configs"]
    assert config["synonyms"] == [
        {"name": "log.retention.bytes", "value": "77", "source": 3},
        {"name": "log.retention.bytes", "value": "-1", "source": 5},
    ]


async def test_the_brokers_configs_say_where_they_are() -> None:
    async with asked(brokers=2, configs={"num.partitions": "3"}) as ask:
        found = values(await describe(ask, BROKER, "2"))
        wrong = await describe(ask, BROKER, "1")
        right = values(await describe(ask, BROKER, "1", "advertised.listeners", "num.partitions"))
    assert found == {}
    assert wrong["error_code"] == Error.NONE
    assert right == {
        "advertised.listeners": (f"PLAINTEXT://127.0.0.1:{ask.broker.ports[0]}", 4),
        "num.partitions": ("3", 4),
    }


async def test_values_are_checked_as_kafka_does() -> None:
    async with asked(topics={"orders": 1}) as ask:
        assert await alter(ask, TOPIC, "orders", ("retention.ms", 0, "abc")) == (
            Error.INVALID_CONFIG,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        )
        assert await alter(ask, TOPIC, "orders", ("retention.ms", 0, "-5")) == (
            Error.INVALID_CONFIG,
            "Invalid value -5 for configuration retention.ms: Value must be at least -1",
        )
        assert await alter(ask, TOPIC, "orders", ("preallocate", 0, "yes")) == (
            Error.INVALID_CONFIG,
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        )
        assert await alter(ask, TOPIC, "orders", ("nope", 0, "1")) == (
            Error.INVALID_CONFIG,
            "Unknown topic config name: nope",
        )
        assert await alter(ask, TOPIC, "orders", ("retention.ms", 2, "3")) == (
            Error.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        )
        assert await alter(ask, TOPIC, "orders", ("retention.ms", 0, None)) == (
            Error.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        )
        assert await alter(ask, BROKER, "1", ("num.partitions", 0, "2")) == (
            Error.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        )
        assert (await alter(ask, TOPIC, "nope", ("retention.ms", 0, "1")))[0] == Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await alter(ask, TOPIC, "orders", ("a", 0, "1"), ("a", 0, "2")))[0] == Error.INVALID_REQUEST
        assert (await alter(ask, LOGGER, "1", ("root", 0, "LOUD")))[0] == Error.INVALID_CONFIG
        assert (await alter(ask, 99, "orders", ("a", 0, "1")))[0] == Error.INVALID_REQUEST
        assert values(await describe(ask, TOPIC, "orders"))["retention.ms"][1] == 5


async def test_lists_are_appended_to_and_subtracted_from() -> None:
    async with asked(topics={"orders": 1}) as ask:
        await alter(ask, TOPIC, "orders", ("cleanup.policy", 2, "compact"))
        both = values(await describe(ask, TOPIC, "orders"))["cleanup.policy"]
        await alter(ask, TOPIC, "orders", ("cleanup.policy", 3, "delete"))
        compact = values(await describe(ask, TOPIC, "orders"))["cleanup.policy"]
        await alter(ask, TOPIC, "orders", ("cleanup.policy", 1, None))
        again = values(await describe(ask, TOPIC, "orders"))["cleanup.policy"]
    assert both == ("delete,compact", 1)
    assert compact == ("compact", 1)
    assert again == ("delete", 5)


async def test_alter_configs_replaces_everything() -> None:
    async with asked(topics={"orders": 1}) as ask:
        await alter(ask, TOPIC, "orders", ("retention.ms", 0, "1000"))
        resource = {
            "resource_type": TOPIC,
            "resource_name": "orders",
            "configs": [{"name": "retention.bytes", "value": "5"}],
        }
        await ask("AlterConfigs", 2, {"resources": [resource], "validate_only": True})
        checked = values(await describe(ask, TOPIC, "orders"))
        await ask("AlterConfigs", 2, {"resources": [resource]})
        replaced = values(await describe(ask, TOPIC, "orders"))
    assert checked["retention.ms"] == ("1000", 1)
    assert replaced["retention.ms"] == ("604800000", 5)
    assert replaced["retention.bytes"] == ("5", 1)


async def test_what_has_configs_is_listed() -> None:
    async with asked(topics={"orders": 1}) as ask:
        assert await alter(ask, GROUP, "g", ("consumer.session.timeout.ms", 0, "50000")) == (0, None)
        assert await alter(ask, METRICS, "m", ("interval.ms", 0, "60000")) == (0, None)
        body = await ask("ListConfigResources", 1, {"resource_types": []})
        metrics = await ask("ListConfigResources", 0, {})
        wrong = await ask("ListConfigResources", 1, {"resource_types": [99]})
    named = {(each["resource_type"], each["resource_name"]) for each in body["config_resources"]}
    assert named == {(TOPIC, "orders"), (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g")}
    assert [each["resource_name"] for each in metrics["config_resources"]] == ["m"]
    assert wrong["error_code"] == Error.UNSUPPORTED_VERSION
