"""Configs: the settings of each resource, and the effective values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kproxy.broker.configs.facts import UNKNOWN, ConfigDefinition, all_definitions, definitions
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.features import Features

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster

#: Resource types with configs, and their codes on the wire.
CODES: Final[Mapping[str, int]] = {"topic": 2, "broker": 4, "broker_logger": 8, "client_metrics": 16, "group": 32}

#: Config sources by resource type; codes on the wire.
_SET_SOURCES: Final = {"topic": 1, "broker": 2, "broker_logger": 6, "client_metrics": 7, "group": 8}
_DYNAMIC_DEFAULT: Final = 3
_STATIC_SOURCE: Final = 4
_DEFAULT_SOURCE: Final = 5

#: Defaults that suit development better than Kafka's.
_DEFAULT_OVERRIDES: Final = {
    "default.replication.factor": "3",  # limited to the number of brokers; allows stopping one
    "delete.topic.enable": "true",  # was false before 1.0
    "group.initial.rebalance.delay.ms": "0",  # no wait for further members
}
#: Topics' time configs that brokers have in several units, most specific first; the first one that is set applies.
_TIMES: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
}
#: The first release line that has configs for a resource type.
_FIRST_RELEASES: Final = {"broker_logger": "2.4", "client_metrics": "3.7", "group": "4.0"}
MIN_ISR: Final = "min.insync.replicas"
#: A broker config for one listener: ``listener.name.internal.ssl.keystore.location``.
LISTENER_CONFIG: Final = re.compile(r"listener\.name\.[^.]+\.(.+)")
_LOGGERS: Final = ("root", "kafka", "org.apache.kafka")
_STRING: Final = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, with the config name and the source under which it was set."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class Config:
    """One config of a resource as reported to clients; `synonyms` are all its values in order of precedence."""

    definition: ConfigDefinition
    value: str | None
    source: int
    synonyms: tuple[Setting, ...]

    @property
    def visible_value(self) -> str | None:
        """The value; None if it is a secret."""
        return None if self.definition.sensitive else self.value


class Configs:
    """All configs of a cluster. A resource is a type (`CODES`) and a name; ``""`` means all brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.line = cluster.line
        self.edition = 0  # incremented by every change
        self._settings: dict[tuple[str, str], dict[str, str]] = {}
        for key, stored in cluster.journal.entries("configs"):
            kind, _, name = key.partition(":")
            self._settings[kind, name] = dict(stored)

    def has(self, kind: str) -> bool:
        """Whether the release has configs for a resource type."""
        return self.line.is_at_least(_FIRST_RELEASES[kind]) if kind in _FIRST_RELEASES else True

    def broker(self, key: str) -> str:
        """Return the brokers' effective value, e.g. of ``num.partitions``; ``""`` if there is no default."""
        return next((setting.value for setting in self._broker_settings(key) if setting.value is not None), "")

    def topic(self, name: str, key: str) -> str:
        """Return a topic's effective value, e.g. of ``retention.ms``."""
        return self._effective_value("topic", name, key)

    def group(self, name: str, key: str) -> str:
        """Return a group's effective value, e.g. of ``consumer.session.timeout.ms``."""
        return self._effective_value("group", name, key)

    def names(self, kind: str) -> list[str]:
        """Return the names of the resources of a type that have settings."""
        return [name for resource_kind, name in self._settings if resource_kind == kind]

    def for_resource(self, kind: str, name: str) -> Mapping[str, str]:
        """Return the settings of a resource."""
        settings = self._settings.get((kind, name), {})
        if kind == "broker" and not name and MIN_ISR not in settings and self.min_isr_is_set:
            return {MIN_ISR: next(self._static_settings(MIN_ISR)).value or "", **settings}
        return settings

    def has_config(self, kind: str, key: str) -> bool:
        """Whether a resource type has a config in this release."""
        return key in _definitions(kind, self.line.name)

    def definition(self, kind: str, key: str) -> ConfigDefinition:
        """Return the definition of a config.

        Raises:
            ApiError: INVALID_CONFIG or INVALID_REQUEST if the resource type has no such config.
        """
        definition = _definitions(kind, self.line.name).get(key)
        if definition is not None:
            return definition
        if kind == "broker":
            return self._unlisted_definition(key)
        if kind == "broker_logger":
            raise ApiError(Error.INVALID_CONFIG, f"Logger {key:.200} does not exist!")
        if kind == "client_metrics":
            raise ApiError(Error.INVALID_REQUEST, f"Unknown client metrics configuration: {key:.200}")
        raise ApiError(Error.INVALID_CONFIG, f"Unknown {kind} config name: {key:.200}")

    @property
    def min_isr_is_set(self) -> bool:
        """Whether ``min.insync.replicas`` must be set for all brokers, as with eligible leader replicas (KIP-966)."""
        return self._cluster.part(Features).level("eligible.leader.replicas.version") > 0

    def set(self, kind: str, name: str, settings: Mapping[str, str]) -> None:
        """Replace the settings of a resource; they must be valid."""
        self.edition += 1
        if settings:
            self._settings[kind, name] = dict(settings)
        else:
            self._settings.pop((kind, name), None)
        self._cluster.journal.put("configs", f"{kind}:{name}", settings or None)

    def forget(self, kind: str, name: str) -> None:
        """Remove the settings of a deleted resource."""
        if (kind, name) in self._settings:
            self.set(kind, name, {})

    def describe(self, kind: str, name: str, settings: Mapping[str, str] | None = None) -> list[Config]:
        """Return every config of a resource. If `settings` are given, return the configs as if those were set."""
        effective_settings = self.for_resource(kind, name) if settings is None else settings
        listed = _definitions(kind, self.line.name)
        unlisted = (
            [self.definition(kind, key) for key in effective_settings if key not in listed] if kind == "broker" else []
        )
        configs = (
            self._effective_config(kind, name, definition, effective_settings)
            for definition in [*listed.values(), *unlisted]
        )
        # The defaults for all brokers contain only configs that have been set.
        return [config for config in configs if kind != "broker" or name or config.source != _DEFAULT_SOURCE]

    def _effective_config(
        self, kind: str, name: str, definition: ConfigDefinition, settings: Mapping[str, str]
    ) -> Config:
        synonyms = tuple(self._settings_of(kind, name, definition, settings))
        effective_setting = synonyms[0] if synonyms else Setting(definition.name, definition.default, _DEFAULT_SOURCE)
        return Config(definition, effective_setting.value, effective_setting.source, synonyms)

    def _settings_of(
        self, kind: str, name: str, definition: ConfigDefinition, settings: Mapping[str, str]
    ) -> Iterator[Setting]:
        if definition.name in settings:
            source = _DYNAMIC_DEFAULT if kind == "broker" and not name else _SET_SOURCES[kind]
            yield Setting(definition.name, settings[definition.name], source)
        if kind == "broker" and name:
            if (node_value := self._node_configs(name).get(definition.name)) is not None:
                yield Setting(definition.name, node_value, _STATIC_SOURCE)
            yield from self._broker_settings(definition.name)
        elif kind in ("topic", "group"):
            for synonym in definition.synonyms:
                yield from self._broker_settings(synonym)
            for synonym, unit_ms in _TIMES.get(definition.name, ()):
                for setting in self._broker_settings(synonym):
                    if setting.source != _DEFAULT_SOURCE and setting.value:
                        yield Setting(synonym, str(int(setting.value) * unit_ms), setting.source)
        elif kind == "broker_logger":
            yield Setting(definition.name, definition.default, _DEFAULT_SOURCE)

    def _broker_settings(self, key: str) -> Iterator[Setting]:
        """Yield the values of a broker config in order of precedence."""
        if (dynamic := self.for_resource("broker", "").get(key)) is not None:
            yield Setting(key, dynamic, _DYNAMIC_DEFAULT)
        yield from self._static_settings(key)

    def _static_settings(self, key: str) -> Iterator[Setting]:
        """Yield the values of a broker config, except dynamic ones."""
        definition = all_definitions("broker", self.line.name).get(key)
        default = None if definition is None else definition.default
        static = self._cluster.options.configs.get(key)
        if static is None and _DEFAULT_OVERRIDES.get(key) != default:
            static = _DEFAULT_OVERRIDES.get(key)
        if static is not None:
            yield Setting(key, static, _STATIC_SOURCE)
        if default is not None:
            yield Setting(key, default, _DEFAULT_SOURCE)

    def _node_configs(self, name: str) -> Mapping[str, str]:
        """Return the configs in a broker's server.properties."""
        node = next((node for node in self._cluster.nodes.values() if str(node.id) == name), None)
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

    def _unlisted_definition(self, key: str) -> ConfigDefinition:
        """Return the definition of a config that a broker accepts without listing it, for a listener or a plug-in.

        Values of unknown configs are hidden: they may be secret.
        """
        listener_match = LISTENER_CONFIG.fullmatch(key)
        if listener_match and (base := definitions("broker", self.line.name).get(listener_match[1])) is not None:
            return replace(base, name=key, default=None, read_only=True, synonyms=())
        return ConfigDefinition(key, UNKNOWN, default=None, read_only=True, sensitive=True)

    def _effective_value(self, kind: str, name: str, key: str) -> str:
        return (
            self._effective_config(
                kind, name, all_definitions(kind, self.line.name)[key], self.for_resource(kind, name)
            ).value
            or ""
        )


def _definitions(kind: str, release: str) -> Mapping[str, ConfigDefinition]:
    if kind == "broker_logger":
        return {name: ConfigDefinition(name, _STRING, "INFO", read_only=False, sensitive=False) for name in _LOGGERS}
    return definitions(kind, release)
