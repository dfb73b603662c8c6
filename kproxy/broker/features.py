"""Features of the cluster (KIP-584): which levels there are, and which hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dissectors.schemas.codes import ApiKey
from dissectors.schemas.lines import Feature

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster


_UPDATE_FEATURES: Final = ApiKey.UPDATE_FEATURES


class Features:
    """The features that the cluster's release has, at their finalized levels; 0 is off.

    `epoch` grows with each change; with ZooKeeper, which has none of them, it is 0, and before Kafka 2.7 it is -1.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._journal = cluster.journal
        release = cluster.line
        self.known: Mapping[str, Feature] = release.features
        self._levels = {name: feature.level for name, feature in self.known.items()}
        self.epoch = 1 if release.kraft else 0 if _UPDATE_FEATURES in release.served else -1
        for name, kept in cluster.journal.entries("features"):
            self._levels[name] = kept["level"]
            self.epoch += 1

    @property
    def levels(self) -> Mapping[str, int]:
        """The finalized level of each feature that is on."""
        return {name: level for name, level in self._levels.items() if level > 0}

    def level(self, name: str) -> int:
        """The finalized level of a feature, 0 if it is off or not known."""
        return self._levels.get(name, 0)

    def finalize(self, name: str, level: int) -> None:
        """Set a level that has been checked."""
        self._levels[name] = level
        self.epoch += 1
        self._journal.put("features", name, {"level": level})
