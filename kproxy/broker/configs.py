"""Configs of topics, brokers, groups: what was set, and what holds where nothing was."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

_DEFAULTS = {"auto.create.topics.enable": "true", "num.partitions": "1"}


class Configs:
    """Every config of a cluster. A resource is a type (``topic``, ``broker``, ...) and a name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def broker(self, key: str) -> str:
        """What holds for the brokers, e.g. of ``num.partitions``."""
        return self._cluster.options.configs.get(key, _DEFAULTS[key])
