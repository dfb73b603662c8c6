"""Automatic topic creation: topics that clients request, and Kafka's internal topics."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kproxy.broker.clock import Timer
from kproxy.broker.configs import Configs
from kproxy.broker.errors import Refused
from kproxy.broker.topics import Topic, Topics

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"

#: Internal topic -> the config with its number of partitions.
_INTERNAL: Final = {
    CONSUMER_OFFSETS: "offsets.topic.num.partitions",
    TRANSACTION_STATE: "transaction.state.log.num.partitions",
    SHARE_GROUP_STATE: "share.coordinator.state.topic.num.partitions",
}


class AutoCreation:
    """Creates topics with default settings, now or after ``Options.auto_create_delay_ms``.

    Kafka creates a requested topic in the background: the client gets its response before the topic exists.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timers: dict[str, Timer] = {}

    def now(self, name: str) -> Topic:
        """Create a topic.

        Raises:
            Refused: See `Topics.create`.
        """
        topics, configs = self._cluster.part(Topics), self._cluster.part(Configs)
        partitions = int(configs.broker(_INTERNAL.get(name, "num.partitions")))
        return topics.create(name, topics.spread(partitions, topics.default_replication), internal=name in _INTERNAL)

    def soon(self, name: str) -> None:
        """Create a topic after the delay, unless its creation is already scheduled."""
        delay_ms = self._cluster.options.auto_create_delay_ms
        if delay_ms <= 0:
            self._try(name)
        elif name not in self._timers:
            self._timers[name] = self._cluster.clock.later(delay_ms, lambda: self._due(name))

    def close(self) -> None:
        """Cancel scheduled creations."""
        for timer in self._timers.values():
            timer.cancel()

    def _due(self, name: str) -> None:
        del self._timers[name]
        self._try(name)

    def _try(self, name: str) -> None:
        with suppress(Refused):  # created meanwhile, or not storable; Kafka logs that
            self.now(name)
