"""Topics that nobody asked to create: those that clients ask about, and those that Kafka keeps its own state in."""

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

#: Internal topic -> config with its number of partitions.
_INTERNAL: Final = {
    CONSUMER_OFFSETS: "offsets.topic.num.partitions",
    TRANSACTION_STATE: "transaction.state.log.num.partitions",
    SHARE_GROUP_STATE: "share.coordinator.state.topic.num.partitions",
}


class AutoCreation:
    """Creates topics with default settings, now or after ``Options.auto_create_delay_ms``.

    Kafka creates a topic that a client asks about in the background: the client has its answer before the topic exists.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timers: dict[str, Timer] = {}

    def now(self, name: str) -> Topic:
        """Create a topic.

        Raises:
            Refused: As `Topics.create` does.
        """
        topics, configs = self._cluster.part(Topics), self._cluster.part(Configs)
        partitions = int(configs.broker(_INTERNAL.get(name, "num.partitions")))
        return topics.create(name, topics.spread(partitions, topics.default_replication), internal=name in _INTERNAL)

    def soon(self, name: str) -> None:
        """Create a topic after the delay, unless it is on its way already."""
        delay_ms = self._cluster.options.auto_create_delay_ms
        if delay_ms <= 0:
            self._try(name)
        elif name not in self._timers:
            self._timers[name] = self._cluster.clock.later(delay_ms, lambda: self._due(name))

    def close(self) -> None:
        """Create nothing any more."""
        for timer in self._timers.values():
            timer.cancel()

    def _due(self, name: str) -> None:
        del self._timers[name]
        self._try(name)

    def _try(self, name: str) -> None:
        with suppress(Refused):  # a client has created it meanwhile, or it cannot be stored; Kafka only logs that
            self.now(name)
