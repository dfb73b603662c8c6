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
from kproxy.broker.configs.resources import Resource, resource
from kproxy.broker.errors import Error, Refused
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request

_DEFAULT = 5

#: In one response: a resource takes a few bytes to request, and its configs take kilobytes.
_MAX_CONFIGS: Final = 200_000


@api("DescribeConfigs")
async def describe_configs(request: Request) -> Body:
    """Return the configs of each resource: all of them for null, else those requested that exist."""
    left, results = _MAX_CONFIGS, []
    async for entry in paced(request.body["resources"]):
        result = _result(request, entry, left)
        left -= len(result.get("configs", ()))
        results.append(result)
    return {"results": results}


def _result(request: Request, entry: Mapping[str, Any], left: int) -> Mapping[str, Any]:
    named = {"resource_type": entry["resource_type"], "resource_name": entry["resource_name"]}
    try:
        described = resource(request, entry)
        require(request, "DESCRIBE_CONFIGS", described.guard, described.guarded)
        if left <= 0:
            raise Refused(Error.INVALID_REQUEST, f"The response has {_MAX_CONFIGS} configs: request fewer resources.")
    except Refused as refused:
        return {**named, "error_code": refused.error, "error_message": refused.message}
    return {**named, "configs": _configs(request, described, entry["configuration_keys"])}


def _configs(request: Request, found: Resource, keys: list[str] | None) -> list[Mapping[str, Any]]:
    requested = None if keys is None else set(keys)
    described = request.cluster.part(Configs).described(found.kind, found.name)
    return [_shown(request, config) for config in described if requested is None or config.fact.name in requested]


def _shown(request: Request, config: Config) -> Mapping[str, Any]:
    fact, body = config.fact, request.body
    synonyms = config.synonyms if body.get("include_synonyms", False) else ()
    return {
        "name": fact.name,
        "value": config.visible_value,
        "read_only": fact.read_only,
        "is_default": config.source == _DEFAULT,
        "config_source": config.source,
        "is_sensitive": fact.sensitive,
        "synonyms": [
            {"name": synonym.name, "value": None if fact.sensitive else synonym.value, "source": synonym.source}
            for synonym in synonyms
        ],
        "config_type": fact.type,
        "documentation": fact.documentation if body.get("include_documentation", False) else None,
    }
