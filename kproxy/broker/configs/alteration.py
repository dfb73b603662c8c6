"""Checks whether configs may be set for a resource."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kproxy.broker.configs.checks import check, check_match
from kproxy.broker.configs.configs import LISTENER_CONFIG, MIN_ISR, Configs
from kproxy.broker.configs.facts import UNKNOWN, ConfigDefinition
from kproxy.broker.errors import ApiError, Error

_LOG_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


def check_settings(configs: Configs, kind: str, name: str, settings: Mapping[str, str]) -> None:
    """Raise `ApiError` with INVALID_CONFIG or INVALID_REQUEST unless these settings are valid for a resource."""
    for key, value in settings.items():
        definition = configs.definition(kind, key)
        if kind == "broker":
            _check_dynamic(name, definition)
        elif kind == "broker_logger":
            _check_log_level(key, value)
        elif kind == "topic":
            _check_tiered_storage(configs, key, value)
        elif (kind, key) == ("client_metrics", "match"):
            check_match(value)
        try:
            check(definition, value, configs.line)
        except ApiError as api_error:
            raise ApiError(Error.INVALID_REQUEST, api_error.message) if kind == "broker" else api_error from None


def check_min_isr(
    configs: Configs, kind: str, name: str, requested_names: Collection[str], settings: Mapping[str, str]
) -> None:
    """Raise `ApiError` with INVALID_CONFIG if a change is not allowed with eligible leader replicas (KIP-966).

    Args:
        configs: The cluster's configs.
        kind: The resource type.
        name: The resource name.
        requested_names: The names of the configs in the request.
        settings: The settings after the change.
    """
    if kind == "broker" and configs.min_isr_is_set:
        if name and MIN_ISR in requested_names:
            raise ApiError(Error.INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
        if not name and MIN_ISR not in settings:
            raise ApiError(Error.INVALID_CONFIG, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")


def _check_dynamic(name: str, definition: ConfigDefinition) -> None:
    """Raise `ApiError` unless a broker's config can be changed at runtime."""
    if definition.type == UNKNOWN:
        return
    if LISTENER_CONFIG.fullmatch(definition.name):
        if not name:
            raise ApiError(
                Error.INVALID_REQUEST,
                "Cannot update these configs at default cluster level, broker id must be specified: "
                f"[{definition.name:.200}]",
            )
    elif definition.read_only:
        raise ApiError(Error.INVALID_REQUEST, f"Cannot update these configs dynamically: [{definition.name}]")


def _check_log_level(logger: str, level: str) -> None:
    if level not in _LOG_LEVELS:
        raise ApiError(
            Error.INVALID_CONFIG,
            f"Cannot set the log level of {logger} to {level:.50} as it is not a supported log level. "
            f"Valid log levels are {', '.join(_LOG_LEVELS)}",
        )


def _check_tiered_storage(configs: Configs, key: str, value: str) -> None:
    enables_tiering = key == "remote.storage.enable" and value == "true"
    if enables_tiering and configs.broker("remote.log.storage.system.enable") != "true":
        raise ApiError(
            Error.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )
