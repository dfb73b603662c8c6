"""Configs: what was set for each resource, and what holds where nothing was."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kproxy.broker.configs.facts import UNKNOWN, Fact, all_facts, facts
from kproxy.broker.errors import Error, Refused
from kproxy.broker.features import Features

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

#: Kinds of resources that have configs, and their codes on the wire.
CODES: Final[Mapping[str, int]] = {"topic": 2, "broker": 4, "broker_logger": 8, "client_metrics": 16, "group": 32}

#: Where a value was set, by kind of resource; codes on the wire.
_SET: Final = {"topic": 1, "broker": 2, "broker_logger": 6, "client_metrics": 7, "group": 8}
_DYNAMIC_DEFAULT: Final = 3
_STATIC: Final = 4
_DEFAULT: Final = 5

#: Where a developer's desk is better off than with Kafka's own defaults.
_OURS: Final = {
    "default.replication.factor": "3",  # as far as there are brokers: so that one can be stopped
    "delete.topic.enable": "true",  # was false before 1.0
    "group.initial.rebalance.delay.ms": "0",  # nobody waits at a desk for more members
}
#: Times of topics that the brokers have in several units, and those in ms; the first that is set holds.
_TIMES: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
}
#: First release line that has a kind of resource with configs.
_SINCE: Final = {"broker_logger": "2.4", "client_metrics": "3.7", "group": "4.0"}
MIN_ISR: Final = "min.insync.replicas"
#: A broker's config for one of its listeners: ``listener.name.internal.ssl.keystore.location``.
OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.(.+)")
_LOGGERS: Final = ("root", "kafka", "org.apache.kafka")
_STRING: Final = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """A value under the name, and from the source, that it was set with."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class Config:
    """One config of a resource as clients are told of it; `synonyms` are all values, its own first."""

    fact: Fact
    value: str | None
    source: int
    synonyms: tuple[Setting, ...]

    @property
    def shown(self) -> str | None:
        """The value, unless it is a secret."""
        return None if self.fact.sensitive else self.value


class Configs:
    """Every config of a cluster. A resource is a kind (`CODES`) and a name; ``""`` is all brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.line = cluster.line
        self.edition = 0  # another one when something was set
        self._set: dict[tuple[str, str], dict[str, str]] = {}
        for key, kept in cluster.journal.entries("configs"):
            kind, _, name = key.partition(":")
            self._set[kind, name] = dict(kept)

    def has(self, kind: str) -> bool:
        """Whether the release knows of configs of a kind of resource."""
        return self.line.since(_SINCE[kind]) if kind in _SINCE else True

    def broker(self, key: str) -> str:
        """What holds for the brokers, e.g. of ``num.partitions``; ``""`` where there is no default."""
        return next((each.value for each in self._of_brokers(key) if each.value is not None), "")

    def topic(self, name: str, key: str) -> str:
        """What holds for a topic, e.g. of ``retention.ms``."""
        return self._holds("topic", name, key)

    def group(self, name: str, key: str) -> str:
        """What holds for a group, e.g. of ``consumer.session.timeout.ms``."""
        return self._holds("group", name, key)

    def names(self, kind: str) -> list[str]:
        """The resources of a kind for which something was set."""
        return [name for each, name in self._set if each == kind]

    def of(self, kind: str, name: str) -> Mapping[str, str]:
        """What was set for a resource itself."""
        own = self._set.get((kind, name), {})
        if kind == "broker" and not name and MIN_ISR not in own and self.min_isr_is_set:
            return {MIN_ISR: next(self._static(MIN_ISR)).value or "", **own}
        return own

    def knows(self, kind: str, key: str) -> bool:
        """Whether a kind of resource has a config in this release."""
        return key in _facts(kind, self.line.name)

    def fact(self, kind: str, key: str) -> Fact:
        """What is known of a config.

        Raises:
            Refused: INVALID_CONFIG, INVALID_REQUEST: the kind of resource has no such config.
        """
        found = _facts(kind, self.line.name).get(key)
        if found is not None:
            return found
        if kind == "broker":
            return self._unlisted(key)
        if kind == "broker_logger":
            raise Refused(Error.INVALID_CONFIG, f"Logger {key:.200} does not exist!")
        if kind == "client_metrics":
            raise Refused(Error.INVALID_REQUEST, f"Unknown client metrics configuration: {key:.200}")
        raise Refused(Error.INVALID_CONFIG, f"Unknown {kind} config name: {key:.200}")

    @property
    def min_isr_is_set(self) -> bool:
        """Whether ``min.insync.replicas`` has to be set for all brokers: eligible leader replicas are on (KIP-966)."""
        return self._cluster.part(Features).level("eligible.leader.replicas.version") > 0

    def set(self, kind: str, name: str, settings: Mapping[str, str]) -> None:
        """Replace what was set for a resource; it has been checked."""
        self.edition += 1
        if settings:
            self._set[kind, name] = dict(settings)
        else:
            self._set.pop((kind, name), None)
        self._cluster.journal.put("configs", f"{kind}:{name}", settings or None)

    def forget(self, kind: str, name: str) -> None:
        """The resource is gone."""
        if (kind, name) in self._set:
            self.set(kind, name, {})

    def described(self, kind: str, name: str, settings: Mapping[str, str] | None = None) -> list[Config]:
        """Every config of a resource; with `settings` as if these were set for it."""
        own = self.of(kind, name) if settings is None else settings
        known = _facts(kind, self.line.name)
        unlisted = [self.fact(kind, key) for key in own if key not in known] if kind == "broker" else []
        made = (self._config(kind, name, fact, own) for fact in [*known.values(), *unlisted])
        # Of all brokers in sum there is only what was set.
        return [each for each in made if kind != "broker" or name or each.source != _DEFAULT]

    def _config(self, kind: str, name: str, fact: Fact, own: Mapping[str, str]) -> Config:
        synonyms = tuple(self._values(kind, name, fact, own))
        first = synonyms[0] if synonyms else Setting(fact.name, fact.default, _DEFAULT)
        return Config(fact, first.value, first.source, synonyms)

    def _values(self, kind: str, name: str, fact: Fact, own: Mapping[str, str]) -> Iterator[Setting]:
        if fact.name in own:
            source = _DYNAMIC_DEFAULT if kind == "broker" and not name else _SET[kind]
            yield Setting(fact.name, own[fact.name], source)
        if kind == "broker" and name:
            if (node := self._of_node(name).get(fact.name)) is not None:
                yield Setting(fact.name, node, _STATIC)
            yield from self._of_brokers(fact.name)
        elif kind in ("topic", "group"):
            for synonym in fact.synonyms:
                yield from self._of_brokers(synonym)
            for synonym, unit_ms in _TIMES.get(fact.name, ()):
                for each in self._of_brokers(synonym):
                    if each.source != _DEFAULT and each.value:
                        yield Setting(synonym, str(int(each.value) * unit_ms), each.source)
        elif kind == "broker_logger":
            yield Setting(fact.name, fact.default, _DEFAULT)

    def _of_brokers(self, key: str) -> Iterator[Setting]:
        """The values that a config of the brokers has; the first holds."""
        if (dynamic := self.of("broker", "").get(key)) is not None:
            yield Setting(key, dynamic, _DYNAMIC_DEFAULT)
        yield from self._static(key)

    def _static(self, key: str) -> Iterator[Setting]:
        """The values that a config of the brokers has before somebody sets it while they run."""
        fact = all_facts("broker", self.line.name).get(key)
        default = None if fact is None else fact.default
        static = self._cluster.options.configs.get(key)
        if static is None and _OURS.get(key) != default:
            static = _OURS.get(key)
        if static is not None:
            yield Setting(key, static, _STATIC)
        if default is not None:
            yield Setting(key, default, _DEFAULT)

    def _of_node(self, name: str) -> Mapping[str, str]:
        """What a broker has in its server.properties."""
        node = next((each for each in self._cluster.nodes.values() if str(each.id) == name), None)
        if node is None:
            return {}
        listeners = ",".join(f"{name}://{host}:{port}" for name, (host, port) in node.addresses.items())
        directory = str(self._cluster.options.data or "memory")
        return {
            "advertised.listeners": listeners,
            "broker.id": name,
            "broker.rack": node.rack or "",
            "controller.listener.names": "CONTROLLER",
            "listeners": listeners,
            "log.dir": directory,
            "log.dirs": directory,
            "node.id": name,
            "process.roles": "broker,controller",
        }

    def _unlisted(self, key: str) -> Fact:
        """A config that a broker takes without having it in its list: of a listener, or one that only a plug-in knows.

        Nobody sees the values of those that it does not know: they may be secret.
        """
        of_listener = OF_LISTENER.fullmatch(key)
        if of_listener and (base := facts("broker", self.line.name).get(of_listener[1])) is not None:
            return replace(base, name=key, default=None, read_only=True, synonyms=())
        return Fact(key, UNKNOWN, default=None, read_only=True, sensitive=True)

    def _holds(self, kind: str, name: str, key: str) -> str:
        return self._config(kind, name, all_facts(kind, self.line.name)[key], self.of(kind, name)).value or ""


def _facts(kind: str, release: str) -> Mapping[str, Fact]:
    if kind == "broker_logger":
        return {name: Fact(name, _STRING, "INFO", read_only=False, sensitive=False) for name in _LOGGERS}
    return facts(kind, release)
