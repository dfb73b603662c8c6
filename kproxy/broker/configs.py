"""Configs of topics, brokers, groups: what was set, and what holds where nothing was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

#: Kinds of resources that have configs, and their codes on the wire.
CODES: Final[Mapping[str, int]] = {"topic": 2, "broker": 4, "broker_logger": 8, "client_metrics": 16, "group": 32}

_DEFAULTS = {
    "auto.create.topics.enable": "true",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "delete.topic.enable": "true",
}


@dataclass(frozen=True, slots=True)
class Config:
    """One config of a resource as clients are told of it."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool


class Configs:
    """Every config of a cluster. A resource is a kind (`CODES`) and a name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._set: dict[tuple[str, str], dict[str, str]] = {}

    def broker(self, key: str) -> str:
        """What holds for the brokers, e.g. of ``num.partitions``."""
        return self._cluster.options.configs.get(key, _DEFAULTS[key])

    def names(self, kind: str) -> list[str]:
        """The resources of a kind for which something was set."""
        return [name for each, name in self._set if each == kind]

    def check(self, kind: str, name: str, settings: Mapping[str, str]) -> None:
        """Raise `Refused` with INVALID_CONFIG unless a resource can have these."""

    def set(self, kind: str, name: str, settings: Mapping[str, str]) -> None:
        """Replace what was set for a resource."""
        self._set[kind, name] = dict(settings)

    def forget(self, kind: str, name: str) -> None:
        """The resource is gone."""
        self._set.pop((kind, name), None)

    def described(self, kind: str, name: str, settings: Mapping[str, str]) -> list[Config]:
        """Every config of a resource as if these were set for it."""
        return [Config(each, value, CODES["topic"], False, False) for each, value in settings.items()]
