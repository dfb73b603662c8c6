"""Features of the cluster (KIP-584): supported and finalized levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dissectors.schemas.codes import ApiKey
from dissectors.schemas.lines import Feature

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster


_UPDATE_FEATURES: Final = ApiKey.UPDATE_FEATURES


class Features:
    """The features of the cluster's release, with their finalized levels; level 0 means off.

    `epoch` increases with each change; it is 0 with ZooKeeper, which has no features, and -1 before Kafka 2.7.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._journal = cluster.journal
        release = cluster.line
        self.known: Mapping[str, Feature] = release.features
        self._levels = {name: feature.level for name, feature in self.known.items()}
        self.epoch = 1 if release.kraft else 0 if _UPDATE_FEATURES in release.served else -1
        for name, stored in cluster.journal.entries("features"):
            self._levels[name] = stored["level"]
            self.epoch += 1

    @property
    def levels(self) -> Mapping[str, int]:
        """The finalized level of each feature that is on."""
        return {name: level for name, level in self._levels.items() if level > 0}

    def level(self, name: str) -> int:
        """Return the finalized level of a feature, 0 if it is off or unknown."""
        return self._levels.get(name, 0)

    def finalize(self, name: str, level: int) -> None:
        """Set the finalized level of a feature; it must be valid."""
        self._levels[name] = level
        self.epoch += 1
        self._journal.put("features", name, {"level": level})
