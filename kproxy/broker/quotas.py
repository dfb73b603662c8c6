"""Client quotas: what is stored for each entity, and which quota applies to a client."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

#: Pairs of entity type and name, None for the default: ``(("user", "alice"), ("client-id", None))``.
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
#: Stands for an entity type that a quota does not name; a name of None is the default of its type.
_ABSENT: Final = ""


class Quotas:
    """All quotas of a cluster, by entity."""

    def __init__(self, cluster: Cluster) -> None:
        self._journal = cluster.journal
        self._values: dict[Entity, dict[str, float]] = {
            _parse_entity(key): dict(stored) for key, stored in cluster.journal.entries("quotas")
        }

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[str, float]]]:
        return iter(self._values.items())

    def find_applicable(self, user: str, client: str, key: str) -> tuple[tuple[str | None, str | None], float] | None:
        """Return a client's quota: the user and client id that share it, and its value; None if there is none.

        The most specific quota applies (org.apache.kafka.server.quota.ClientQuotaManager.DefaultQuotaCallback).
        """
        if not self._values:
            return None
        for candidate_user, candidate_client in (
            (user, client), (user, None), (user, _ABSENT), (None, client), (None, None), (None, _ABSENT),
            (_ABSENT, client), (_ABSENT, None),
        ):  # fmt: skip
            fields = (("user", candidate_user), ("client-id", candidate_client))
            entity = tuple((kind, name) for kind, name in fields if name != _ABSENT)
            value = self._values.get(entity, {}).get(key)
            if value is not None:
                return (
                    None if candidate_user == _ABSENT else user,
                    None if candidate_client == _ABSENT else client,
                ), value
        return None

    def alter(self, entity: Entity, values: Mapping[str, float | None]) -> None:
        """Set quotas; None removes one."""
        stored = {key: value for key, value in {**self._values.get(entity, {}), **values}.items() if value is not None}
        if stored:
            self._values[entity] = stored
        else:
            self._values.pop(entity, None)
        self._journal.put("quotas", json.dumps(entity), stored or None)


def _parse_entity(key: str) -> Entity:
    return tuple((kind, name) for kind, name in json.loads(key))
