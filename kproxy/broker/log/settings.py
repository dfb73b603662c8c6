"""The topic configs that affect logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kproxy.broker.configs import Configs

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

_DIFFERENCE: Final = "message.timestamp.difference.max.ms"
_NO_LIMIT: Final = (1 << 63) - 1


class LogSettings(NamedTuple):
    """A topic's effective configs, by Kafka's names with underscores; sizes in bytes, times in ms, -1 for no limit."""

    max_message_bytes: int
    compacted: bool
    deleted: bool
    append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compression_type: str
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int


class AllSettings:
    """The settings of all topics, computed once for each edition of the configs."""

    def __init__(self, cluster: Cluster) -> None:
        self._configs = cluster.part(Configs)
        self._edition = self._configs.edition
        self._by_topic: dict[str, LogSettings] = {}

    def for_topic(self, topic: str) -> LogSettings:
        """Return a topic's current settings."""
        if self._edition != self._configs.edition:
            self._edition = self._configs.edition
            self._by_topic.clear()
        settings = self._by_topic.get(topic)
        if settings is None:
            settings = self._by_topic[topic] = _effective_settings(self._configs, topic)
        return settings


def settings(cluster: Cluster, topic: str) -> LogSettings:
    """Return a topic's current settings."""
    return cluster.part(AllSettings).for_topic(topic)


def _effective_settings(configs: Configs, topic: str) -> LogSettings:
    policies = configs.topic(topic, "cleanup.policy").split(",")
    return LogSettings(
        max_message_bytes=int(configs.topic(topic, "max.message.bytes")),
        compacted="compact" in policies,
        deleted="delete" in policies,
        append_time=configs.topic(topic, "message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=_timestamp_max_ms(configs, topic, "before"),
        timestamp_after_max_ms=_timestamp_max_ms(configs, topic, "after"),
        compression_type=configs.topic(topic, "compression.type"),
        min_insync_replicas=int(configs.topic(topic, "min.insync.replicas")),
        retention_bytes=int(configs.topic(topic, "retention.bytes")),
        retention_ms=int(configs.topic(topic, "retention.ms")),
    )


def _timestamp_max_ms(configs: Configs, topic: str, side: str) -> int:
    """Return how far a record's time may differ from now. Until 3.9 one config applies to both directions (KIP-937)."""
    value = int(configs.topic(topic, f"message.timestamp.{side}.max.ms"))
    if value == _NO_LIMIT and configs.has_config("topic", _DIFFERENCE):
        return int(configs.topic(topic, _DIFFERENCE))
    return value
