"""The group settings in the brokers' configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kproxy.broker.configs import Configs

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

#: Upper limit on members per group, whatever the configs say: assignments are computed in this process.
MAX_MEMBERS: Final = 1000


class GroupSettings:
    """Kafka's group configs as numbers; times in ms."""

    def __init__(self, cluster: Cluster) -> None:
        self._configs = cluster.part(Configs)

    @property
    def session_timeouts(self) -> range:
        """Minimum and maximum session timeout of classic members."""
        minimum, maximum = (self._number(f"group.{bound}.session.timeout.ms") for bound in ("min", "max"))
        return range(minimum, maximum + 1)

    @property
    def initial_delay_ms(self) -> int:
        """How long an empty group waits for further members."""
        return self._number("group.initial.rebalance.delay.ms")

    @property
    def max_classic_size(self) -> int:
        """Maximum number of members of a classic group."""
        return min(self._number("group.max.size"), MAX_MEMBERS)

    @property
    def max_consumer_size(self) -> int:
        """Maximum number of members of a consumer group."""
        return min(self._number("group.consumer.max.size"), MAX_MEMBERS)

    @property
    def retention_ms(self) -> int:
        """How long unused offsets are kept."""
        return self._number("offsets.retention.minutes") * 60_000

    @property
    def retention_check_ms(self) -> int:
        """The interval between removals of expired offsets."""
        return self._number("offsets.retention.check.interval.ms")

    @property
    def max_metadata_size(self) -> int:
        """Maximum length of a commit's metadata."""
        return self._number("offset.metadata.max.bytes")

    def session_timeout_ms(self, group: str) -> int:
        """Return how long a consumer group member may be silent before it is removed."""
        return int(self._configs.group(group, "consumer.session.timeout.ms"))

    def heartbeat_interval_ms(self, group: str) -> int:
        """Return how often members of a consumer group should send heartbeats."""
        return int(self._configs.group(group, "consumer.heartbeat.interval.ms"))

    def allows_migration(self, *policies: str) -> bool:
        """Whether groups with members may change their protocol: the policy is one of these, or ``bidirectional``."""
        return self._configs.broker("group.consumer.migration.policy").lower() in (*policies, "bidirectional")

    def _number(self, key: str) -> int:
        return int(self._configs.broker(key))
