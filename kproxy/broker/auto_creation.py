"""Automatic creation of topics that clients request, and of Kafka's internal topics."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kproxy.broker.clock import Timer
from kproxy.broker.configs import Configs
from kproxy.broker.errors import ApiError
from kproxy.broker.topics import Topic, Topics

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"

_STEP_S: Final = 0.01

#: Internal topic -> the config that sets its number of partitions.
_PARTITION_COUNT_CONFIGS: Final = {
    CONSUMER_OFFSETS: "offsets.topic.num.partitions",
    TRANSACTION_STATE: "transaction.state.log.num.partitions",
    SHARE_GROUP_STATE: "share.coordinator.state.topic.num.partitions",
}


class AutoCreation:
    """Creates topics with default settings, now or after ``BrokerOptions.auto_create_delay_ms``.

    Kafka creates a requested topic in the background: the client gets its response before the topic exists.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timer: Timer | None = None
        self._due_times: dict[str, int] = {}  # when each topic will be created, in request order

    def create_now(self, name: str) -> Topic:
        """Create a topic immediately.

        Raises:
            ApiError: See `Topics.create`.
        """
        topics, configs = self._cluster.part(Topics), self._cluster.part(Configs)
        partition_count = int(configs.broker(_PARTITION_COUNT_CONFIGS.get(name, "num.partitions")))
        return topics.create(
            name,
            topics.choose_replicas(partition_count, topics.default_replication),
            internal=name in _PARTITION_COUNT_CONFIGS,
        )

    def create_later(self, names: Collection[str]) -> None:
        """Create the missing topics of one request after the delay, unless that is already scheduled.

        Like Kafka, which sends one CreateTopics request to its controller, it creates none of them if there are too
        many (`Topics.check_request`); the client is not notified.
        """
        clock, delay_ms = self._cluster.clock, self._cluster.options.auto_create_delay_ms
        partition_count = int(self._cluster.part(Configs).broker("num.partitions"))
        try:
            self._cluster.part(Topics).check_request((len(names) + len(self._due_times)) * partition_count)
        except ApiError:
            return
        for name in names:
            if delay_ms <= 0:
                self._try_to_create(name)
            else:
                self._due_times.setdefault(name, clock.now() + math.ceil(delay_ms))
        if self._due_times and self._timer is None:
            self._timer = clock.schedule(delay_ms, self._create_due_topics)

    def close(self) -> None:
        """Cancel scheduled creations."""
        if self._timer is not None:
            self._timer.cancel()

    def _create_due_topics(self) -> None:
        """Create due topics for up to 10 ms; the remaining ones follow after other tasks have run."""
        clock, started_at = self._cluster.clock, time.perf_counter()
        for name, due_at in list(self._due_times.items()):
            if due_at > clock.now():
                break
            del self._due_times[name]
            self._try_to_create(name)
            if time.perf_counter() - started_at > _STEP_S:
                break
        next_due_at = next(iter(self._due_times.values()), None)
        self._timer = (
            None if next_due_at is None else clock.schedule(next_due_at - clock.now(), self._create_due_topics)
        )

    def _try_to_create(self, name: str) -> None:
        with suppress(ApiError):  # it exists by now, or cannot be stored
            self.create_now(name)
