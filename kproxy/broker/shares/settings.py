"""The share group settings in the configs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.broker.configs import Configs

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster


class ShareSettings:
    """Kafka's share group configs as numbers; times in ms."""

    def __init__(self, cluster: Cluster) -> None:
        self._configs = cluster.part(Configs)

    @property
    def group_size(self) -> int:
        """Maximum number of members of a group."""
        return int(self._configs.broker("group.share.max.size"))

    @property
    def sessions(self) -> int:
        """Maximum number of share sessions of a broker."""
        return int(self._configs.broker("group.share.max.share.sessions"))

    def session_timeout_ms(self, group: str) -> int:
        """Return how long a member may be silent before it is removed."""
        return self._number(group, "share.session.timeout.ms")

    def heartbeat_interval_ms(self, group: str) -> int:
        """Return how often members should send heartbeats."""
        return self._number(group, "share.heartbeat.interval.ms")

    def lock_ms(self, group: str) -> int:
        """Return the duration of an acquisition lock."""
        return self._number(group, "share.record.lock.duration.ms")

    def max_locks(self, group: str) -> int:
        """Return the limit on records in flight per partition."""
        return self._number(group, "share.partition.max.record.locks")

    def max_deliveries(self, group: str) -> int:
        """Return the delivery limit of a record."""
        return self._number(group, "share.delivery.count.limit")

    def allows_renewal(self, group: str) -> bool:
        """Whether members may renew acquisition locks (KIP-1222)."""
        return self._configs.group(group, "share.renew.acknowledge.enable").lower() == "true"

    def read_committed(self, group: str) -> bool:
        """Whether records of aborted transactions are skipped."""
        return self._configs.group(group, "share.isolation.level").lower() == "read_committed"

    def auto_offset_reset(self, group: str) -> str:
        """Return where a group starts in a partition: ``latest``, ``earliest``, or ``by_duration:`` and a duration."""
        return self._configs.group(group, "share.auto.offset.reset")

    def _number(self, group: str, key: str) -> int:
        return int(self._configs.group(group, key))
