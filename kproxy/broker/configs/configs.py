"""Configs: what was set for each resource, and what holds where nothing was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kproxy.broker.configs.checks import check
from kproxy.broker.configs.facts import Fact, facts
from kproxy.broker.errors import Error, Refused

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
    "group.initial.rebalance.delay.ms": "0",  # nobody waits at a desk for more members
}
#: Times of topics that the brokers have in several units, and those in ms; the first that is set holds.
_TIMES: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
}
_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
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
        self.edition = 0  # another one when something was set
        self._set: dict[tuple[str, str], dict[str, str]] = {}
        for key, kept in cluster.journal.entries("configs"):
            kind, _, name = key.partition(":")
            self._set[kind, name] = dict(kept)

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
        return self._set.get((kind, name), {})

    def fact(self, kind: str, key: str) -> Fact:
        """What is known of a config.

        Raises:
            Refused: INVALID_CONFIG, the kind of resource has no such config.
        """
        found = _facts(kind).get(key)
        if found is None:
            raise Refused(Error.INVALID_CONFIG, f"Unknown {kind.replace('_', ' ')} config name: {key:.200}")
        return found

    def check(self, kind: str, name: str, settings: Mapping[str, str]) -> None:
        """Raise `Refused` unless these can be set for a resource: INVALID_CONFIG, INVALID_REQUEST."""
        for key, value in settings.items():
            fact = self.fact(kind, key)
            if kind == "broker" and fact.read_only:
                raise Refused(Error.INVALID_REQUEST, f"Cannot update these configs dynamically: [{key}]")
            if kind == "broker_logger" and value not in _LEVELS:
                raise Refused(
                    Error.INVALID_CONFIG,
                    f"Cannot set the log level of {key} to {value:.50} as it is not a supported log level. "
                    f"Valid log levels are {', '.join(_LEVELS)}",
                )
            check(fact, value)

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
        made = (self._config(kind, name, fact, own) for fact in _facts(kind).values())
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
        if (static := self._cluster.options.configs.get(key, _OURS.get(key))) is not None:
            yield Setting(key, static, _STATIC)
        fact = facts("broker").get(key)
        if fact is not None and fact.default is not None:
            yield Setting(key, fact.default, _DEFAULT)

    def _of_node(self, name: str) -> Mapping[str, str]:
        """What a broker has in its server.properties."""
        node = next((each for each in self._cluster.nodes.values() if str(each.id) == name), None)
        if node is None:
            return {}
        listener = f"PLAINTEXT://{node.host}:{node.port}"
        directory = str(self._cluster.options.data or "memory")
        return {
            "advertised.listeners": listener,
            "broker.id": name,
            "broker.rack": node.rack or "",
            "controller.listener.names": "CONTROLLER",
            "listeners": listener,
            "log.dir": directory,
            "log.dirs": directory,
            "node.id": name,
            "process.roles": "broker,controller",
        }

    def _holds(self, kind: str, name: str, key: str) -> str:
        return self._config(kind, name, facts(kind)[key], self.of(kind, name)).value or ""


def _facts(kind: str) -> Mapping[str, Fact]:
    if kind == "broker_logger":
        return {name: Fact(name, _STRING, "INFO", False, False, (), None) for name in _LOGGERS}
    return facts(kind)
