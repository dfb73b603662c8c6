"""Checks whether a value is valid for a config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from dissectors.schemas.lines import ReleaseLine
from kproxy.broker.configs.facts import ConfigDefinition, definitions
from kproxy.broker.errors import ApiError, Error

_TYPES: Final = {1: "BOOLEAN", 2: "STRING", 3: "INT", 4: "SHORT", 5: "LONG", 6: "DOUBLE", 7: "LIST"}
_BOOLEAN: Final = 1
_BITS: Final = {3: 31, 4: 15, 5: 63}
#: The config type of lists.
LIST: Final = 7

#: The allowed values of enumerated configs (org.apache.kafka.storage.internals.log.LogConfig).
_ALLOWED_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "cleanup.policy": ("compact", "delete"),
    "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}
#: The minimum value of numeric configs that have one.
_MIN_VALUES: Final[Mapping[str, float]] = {
    "delete.retention.ms": 0,
    "file.delete.delay.ms": 0,
    "flush.messages": 1,
    "flush.ms": 0,
    "index.interval.bytes": 0,
    "max.compaction.lag.ms": 1,
    "max.message.bytes": 0,
    "message.timestamp.after.max.ms": 0,
    "message.timestamp.before.max.ms": 0,
    "min.cleanable.dirty.ratio": 0,
    "min.compaction.lag.ms": 0,
    "min.insync.replicas": 1,
    "retention.ms": -1,
    "segment.bytes": 14,
    "segment.index.bytes": 4,
    "segment.jitter.ms": 0,
    "segment.ms": 1,
}
_MIN_SINCE_4_1: Final[Mapping[str, float]] = {**_MIN_VALUES, "segment.bytes": 1024 * 1024}
#: The keys for selecting clients for metrics (org.apache.kafka.server.metrics.ClientMetricsConfigs).
_SELECTORS: Final = (
    "client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port",
)  # fmt: skip


def check(definition: ConfigDefinition, value: str, line: ReleaseLine) -> None:
    """Raise `ApiError` with INVALID_CONFIG (before 2.1, UNKNOWN_SERVER_ERROR) unless the value is valid."""
    min_values = _MIN_SINCE_4_1 if line.is_at_least("4.1") else _MIN_VALUES if line.is_at_least("2.2") else {}
    try:
        _check_value(definition, value, min_values)
    except ValueError as error:
        api_error_code = Error.INVALID_CONFIG if line.is_at_least("2.1") else Error.UNKNOWN_SERVER_ERROR
        raise ApiError(
            api_error_code, f"Invalid value {value:.200} for configuration {definition.name}: {error}"
        ) from None


def check_match(value: str) -> None:
    """Raise `ApiError` with INVALID_CONFIG unless this is a valid list of client patterns: ``client_id=a.*,...``."""
    for entry in filter(None, (entry.strip() for entry in value.split(","))):
        selector, separator, _ = entry.partition("=")
        if not separator or selector.strip() not in _SELECTORS:
            raise ApiError(Error.INVALID_CONFIG, f"Illegal client matching pattern: {entry:.200}")


def check_static(configs: Mapping[str, str], line: ReleaseLine) -> None:
    """Raise `ValueError` unless brokers can start with these configs; unknown ones are ignored, as in Kafka."""
    for key, value in configs.items():
        if (definition := definitions("broker", line.name).get(key)) is not None:
            try:
                check(definition, value, line)
            except ApiError as api_error:
                raise ValueError(api_error.message) from None


def _check_value(definition: ConfigDefinition, value: str, min_values: Mapping[str, float]) -> None:
    """Raise `ValueError` with the reason if the value is invalid."""
    try:
        number = _PARSERS.get(definition.type, _parse_text)(value, _BITS.get(definition.type, 0))
    except ValueError:
        if definition.type == _BOOLEAN:
            raise ValueError("Expected value to be either true or false") from None
        raise ValueError(f"Not a number of type {_TYPES[definition.type]}") from None
    if number is not None and number < min_values.get(definition.name, number):
        raise ValueError(f"Value must be at least {min_values[definition.name]}")
    if allowed := _ALLOWED_VALUES.get(definition.name):
        for element in filter(None, value.split(",")) if definition.type == LIST else [value]:
            if element.strip() not in allowed:
                raise ValueError(f"String must be one of: {', '.join(allowed)}")


def _parse_text(value: str, bits: int) -> None:
    """Accept any text."""


def _check_boolean(value: str, bits: int) -> None:
    if value.strip().lower() not in ("true", "false"):
        raise ValueError(value)


def _parse_integer(value: str, bits: int) -> int:
    if len(value) > 20:
        raise ValueError(value)
    number = int(value.strip())
    if not -(1 << bits) <= number < 1 << bits:
        raise ValueError(value)
    return number


def _parse_double(value: str, bits: int) -> float:
    return float(value)


_PARSERS: Final[Mapping[int, Callable[[str, int], float | None]]] = {
    1: _check_boolean, 3: _parse_integer, 4: _parse_integer, 5: _parse_integer, 6: _parse_double,
}  # fmt: skip
