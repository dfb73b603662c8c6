"""IncrementalAlterConfigs (KIP-339): sets, deletes, appends to and subtracts from single configs.

The log levels of a broker's loggers can also be set, without effect.

Leaves out: the effect of most configs; the pages of the APIs name those that have one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.configs import Configs
from kproxy.broker.configs.alteration import check_min_isr, check_settings
from kproxy.broker.configs.checks import LIST
from kproxy.broker.configs.resources import find_resource
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request

_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3


@api("IncrementalAlterConfigs")
async def incremental_alter_configs(request: Request) -> Body:
    """Return the result for each resource."""
    return await alter_each(request, lambda entry: apply_settings(request, entry, _altered_settings(request, entry)))


async def alter_each(request: Request, alter: Callable[[Mapping[str, Any]], None]) -> Body:
    """Apply `alter` to each resource and return the results; a resource that is listed twice is rejected."""
    counts = Counter((entry["resource_type"], entry["resource_name"]) for entry in request.body["resources"])
    responses = []
    async for entry in paced(request.body["resources"]):
        identity = {"resource_type": entry["resource_type"], "resource_name": entry["resource_name"]}
        try:
            if counts[tuple(identity.values())] > 1:
                raise ApiError(Error.INVALID_REQUEST, "Each resource must appear at most once.")
            names = [config["name"] for config in entry["configs"]]
            if len(set(names)) < len(names):
                raise ApiError(Error.INVALID_REQUEST, "Error due to duplicate config keys")
            alter(entry)
            responses.append({**identity, "error_message": None})
        except ApiError as api_error:
            responses.append({**identity, "error_code": api_error.error, "error_message": api_error.message})
    return {"responses": responses}


def apply_settings(request: Request, entry: Mapping[str, Any], settings: Mapping[str, str]) -> None:
    """Replace the settings of a resource, unless the request only validates them.

    Raises:
        ApiError: The settings are invalid, or the principal may not change them.
    """
    target, configs = find_resource(request, entry), request.cluster.part(Configs)
    require(request, "ALTER_CONFIGS", target.guard, target.guarded)
    old_settings = configs.for_resource(target.kind, target.name)
    changes = {key: value for key, value in settings.items() if old_settings.get(key) != value}
    check_settings(configs, target.kind, target.name, changes)
    check_min_isr(configs, target.kind, target.name, [config["name"] for config in entry["configs"]], settings)
    if not request.body["validate_only"]:
        configs.set(target.kind, target.name, settings)


def _altered_settings(request: Request, entry: Mapping[str, Any]) -> dict[str, str]:
    target, configs = find_resource(request, entry), request.cluster.part(Configs)
    settings = dict(configs.for_resource(target.kind, target.name))
    for config in entry["configs"]:
        key, value, operation = config["name"], config["value"], config["config_operation"]
        if operation == _DELETE:
            if target.kind == "broker_logger":
                configs.definition(target.kind, key)  # loggers must exist; other unknown configs count as deleted
            settings.pop(key, None)
            continue
        if value is None:
            raise ApiError(Error.INVALID_REQUEST, f"Null value not supported for : {key}")
        if operation == _SET:
            settings[key] = value
        elif operation in (_APPEND, _SUBTRACT):
            settings[key] = _change_list(configs, target.kind, target.name, key, value, operation)
        else:
            raise ApiError(Error.INVALID_REQUEST, f"Unknown operation {operation}")
    return settings


def _change_list(configs: Configs, kind: str, name: str, key: str, value: str, operation: int) -> str:
    if configs.definition(kind, key).type != LIST:
        verb = "APPEND to" if operation == _APPEND else "SUBTRACT from"
        raise ApiError(Error.INVALID_CONFIG, f"Can't {verb} key {key} because its type is not LIST.")
    [config] = (config for config in configs.describe(kind, name) if config.definition.name == key)
    current_values = [element for element in (config.value or "").split(",") if element]
    requested = [element.strip() for element in value.split(",") if element.strip()]
    if operation == _APPEND:
        current_values += [element for element in requested if element not in current_values]
    else:
        current_values = [current_value for current_value in current_values if current_value not in requested]
    return ",".join(current_values)
