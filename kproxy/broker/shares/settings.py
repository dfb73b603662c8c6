"""What the configs say about share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.broker.configs import Configs

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster


class ShareSettings:
    """Kafka's configs of share groups as numbers; times in ms."""

    def __init__(self, cluster: Cluster) -> None:
        self._configs = cluster.part(Configs)

    @property
    def group_size(self) -> int:
        """How many members a group can have."""
        return int(self._configs.broker("group.share.max.size"))

    @property
    def sessions(self) -> int:
        """How many share sessions a broker keeps."""
        return int(self._configs.broker("group.share.max.share.sessions"))

    def session_timeout_ms(self, group: str) -> int:
        """When a silent member is taken for gone."""
        return self._number(group, "share.session.timeout.ms")

    def heartbeat_interval_ms(self, group: str) -> int:
        """How often members are asked to call."""
        return self._number(group, "share.heartbeat.interval.ms")

    def lock_ms(self, group: str) -> int:
        """How long a member has a record to itself."""
        return self._number(group, "share.record.lock.duration.ms")

    def most_locks(self, group: str) -> int:
        """How many records of a partition may be in flight."""
        return self._number(group, "share.partition.max.record.locks")

    def most_deliveries(self, group: str) -> int:
        """How often a record is delivered before it is given up."""
        return self._number(group, "share.delivery.count.limit")

    def renews(self, group: str) -> bool:
        """Whether members may ask for more time (KIP-1222)."""
        return self._configs.group(group, "share.renew.acknowledge.enable").lower() == "true"

    def read_committed(self, group: str) -> bool:
        """Whether records of aborted transactions are left out."""
        return self._configs.group(group, "share.isolation.level").lower() == "read_committed"

    def reset(self, group: str) -> str:
        """Where a group begins in a partition: ``latest``, ``earliest``, or ``by_duration:`` and a duration."""
        return self._configs.group(group, "share.auto.offset.reset")

    def _number(self, group: str, key: str) -> int:
        return int(self._configs.group(group, key))
