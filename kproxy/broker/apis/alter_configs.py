"""AlterConfigs: replaces all configs set for topics, brokers, groups or client metrics.

Leaves out: the effect of most configs; the pages of the APIs name those that have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.apis.incremental_alter_configs import alter_each, apply_settings
from kproxy.broker.configs import CODES
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("AlterConfigs")
async def alter_configs(request: Request) -> Body:
    """Return the result for each resource."""
    return await alter_each(request, lambda entry: apply_settings(request, entry, _requested_settings(request, entry)))


def _requested_settings(request: Request, entry: Mapping[str, Any]) -> dict[str, str]:
    kind = entry["resource_type"]
    if kind == CODES["broker_logger"]:
        raise ApiError(Error.INVALID_REQUEST, f"Unknown resource type {kind}")
    if kind == CODES["broker"] and not request.cluster.line.is_at_least("1.1"):
        raise ApiError(Error.INVALID_REQUEST, "AlterConfigs is only supported for topics, but resource type is BROKER")
    for config in entry["configs"]:
        if config["value"] is None:
            raise ApiError(Error.INVALID_REQUEST, f"Null value not supported for : {config['name']}")
    return {config["name"]: config["value"] for config in entry["configs"]}
