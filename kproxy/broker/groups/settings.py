"""What the brokers' configs say about groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kproxy.broker.configs import Configs

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

#: More members than that no group gets, whatever its configs say: their assignments are worked out in this process.
MOST_MEMBERS: Final = 1000


class GroupSettings:
    """Kafka's group configs as numbers; times in ms."""

    def __init__(self, cluster: Cluster) -> None:
        self._configs = cluster.part(Configs)

    @property
    def session_timeouts(self) -> range:
        """What members of classic groups may ask for."""
        low, high = (self._number(f"group.{each}.session.timeout.ms") for each in ("min", "max"))
        return range(low, high + 1)

    @property
    def initial_delay_ms(self) -> int:
        """How long an empty group waits for more members."""
        return self._number("group.initial.rebalance.delay.ms")

    @property
    def classic_size(self) -> int:
        """How many members a classic group can have."""
        return min(self._number("group.max.size"), MOST_MEMBERS)

    @property
    def consumer_size(self) -> int:
        """How many members a consumer group can have."""
        return min(self._number("group.consumer.max.size"), MOST_MEMBERS)

    @property
    def retention_ms(self) -> int:
        """How long offsets are kept that nobody uses."""
        return self._number("offsets.retention.minutes") * 60_000

    @property
    def retention_check_ms(self) -> int:
        """How often it is looked whether there are such."""
        return self._number("offsets.retention.check.interval.ms")

    @property
    def metadata_size(self) -> int:
        """The longest text that may be committed with an offset."""
        return self._number("offset.metadata.max.bytes")

    def session_timeout_ms(self, group: str) -> int:
        """When a silent member of a consumer group is taken for gone."""
        return int(self._configs.group(group, "consumer.session.timeout.ms"))

    def heartbeat_interval_ms(self, group: str) -> int:
        """How often members of a consumer group are asked to call."""
        return int(self._configs.group(group, "consumer.heartbeat.interval.ms"))

    def migrates(self, *policies: str) -> bool:
        """Whether groups with members may change their protocol as one of these policies lets them."""
        return self._configs.broker("group.consumer.migration.policy").lower() in (*policies, "bidirectional")

    def _number(self, key: str) -> int:
        return int(self._configs.broker(key))
