"""DescribeConfigs: returns the configs of topics, brokers, loggers, groups and client metrics, and their sources.

The available configs and their defaults are those of the emulated release; types and documentation come from the last
release that has the config.

Leaves out: the effect of most configs; the pages of the APIs name those that have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.configs import Config, Configs
from kproxy.broker.configs.resources import Resource, find_resource
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request

_DEFAULT = 5

#: Limit for one response: requesting a resource takes a few bytes, but its configs take kilobytes.
_MAX_CONFIGS: Final = 200_000


@api("DescribeConfigs")
async def describe_configs(request: Request) -> Body:
    """Return the configs of each resource: all if the keys are null, else the requested ones that exist."""
    configs_left, results = _MAX_CONFIGS, []
    async for entry in paced(request.body["resources"]):
        result = _resource_result(request, entry, configs_left)
        configs_left -= len(result.get("configs", ()))
        results.append(result)
    return {"results": results}


def _resource_result(request: Request, entry: Mapping[str, Any], configs_left: int) -> Mapping[str, Any]:
    identity = {"resource_type": entry["resource_type"], "resource_name": entry["resource_name"]}
    try:
        described_resource = find_resource(request, entry)
        require(request, "DESCRIBE_CONFIGS", described_resource.guard, described_resource.guarded)
        if configs_left <= 0:
            raise ApiError(Error.INVALID_REQUEST, f"The response has {_MAX_CONFIGS} configs: request fewer resources.")
    except ApiError as api_error:
        return {**identity, "error_code": api_error.error, "error_message": api_error.message}
    return {**identity, "configs": _describe_configs(request, described_resource, entry["configuration_keys"])}


def _describe_configs(
    request: Request, described_resource: Resource, keys: list[str] | None
) -> list[Mapping[str, Any]]:
    requested = None if keys is None else set(keys)
    configs = request.cluster.part(Configs).describe(described_resource.kind, described_resource.name)
    return [
        _describe(request, config) for config in configs if requested is None or config.definition.name in requested
    ]


def _describe(request: Request, config: Config) -> Mapping[str, Any]:
    definition, body = config.definition, request.body
    synonyms = config.synonyms if body.get("include_synonyms", False) else ()
    return {
        "name": definition.name,
        "value": config.visible_value,
        "read_only": definition.read_only,
        "is_default": config.source == _DEFAULT,
        "config_source": config.source,
        "is_sensitive": definition.sensitive,
        "synonyms": [
            {"name": synonym.name, "value": None if definition.sensitive else synonym.value, "source": synonym.source}
            for synonym in synonyms
        ],
        "config_type": definition.type,
        "documentation": definition.documentation if body.get("include_documentation", False) else None,
    }
