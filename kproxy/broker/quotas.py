"""Client quotas: stored and described, but not enforced."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

#: Entity type -> name, None for the default: ``{"user": "alice", "client-id": None}``.
Entity: TypeAlias = tuple[tuple[str, str | None], ...]

ENTITY_TYPES: Final = ("user", "client-id", "ip")
#: The quota keys, and the entity types that each applies to (org.apache.kafka.server.config.QuotaConfig).
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "producer_byte_rate": ("user", "client-id"),
    "consumer_byte_rate": ("user", "client-id"),
    "request_percentage": ("user", "client-id"),
    "controller_mutation_rate": ("user", "client-id"),
    "connection_creation_rate": ("ip",),
}


class Quotas:
    """All quotas of a cluster, by entity."""

    def __init__(self, cluster: Cluster) -> None:
        self._journal = cluster.journal
        self._values: dict[Entity, dict[str, float]] = {
            _entity(key): dict(stored) for key, stored in cluster.journal.entries("quotas")
        }

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        return iter(self._values.items())

    def alter(self, entity: Entity, values: Mapping[str, float | None]) -> None:
        """Set quotas; None removes one."""
        stored = {key: value for key, value in {**self._values.get(entity, {}), **values}.items() if value is not None}
        if stored:
            self._values[entity] = stored
        else:
            self._values.pop(entity, None)
        self._journal.put("quotas", json.dumps(entity), stored or None)


def _entity(key: str) -> Entity:
    return tuple((kind, name) for kind, name in json.loads(key))
