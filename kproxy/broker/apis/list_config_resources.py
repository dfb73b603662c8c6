"""ListConfigResources: returns the names of resources with configs: topics, brokers, groups, client metrics.

Version 0, ListClientMetricsResources, lists client metrics alone.

Leaves out: nothing.
"""

from __future__ import annotations

from typing import Final

from kproxy.broker.access import CLUSTER, is_allowed
from kproxy.broker.configs import CODES, Configs
from kproxy.broker.errors import Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics

_KINDS: Final = {code: kind for kind, code in CODES.items()}


@api("ListConfigResources")
def list_config_resources(request: Request) -> Body:
    """Return the resources of the requested types; of all types if none is requested."""
    if not is_allowed(request, "DESCRIBE_CONFIGS", "CLUSTER", CLUSTER):
        return {"error_code": Error.CLUSTER_AUTHORIZATION_FAILED}
    if request.version == 0:
        codes = [CODES["client_metrics"]]
    else:
        codes = list(dict.fromkeys(request.body["resource_types"])) or list(_KINDS)
    if not set(codes) <= set(_KINDS):
        return {"error_code": Error.UNSUPPORTED_VERSION}
    return {
        "config_resources": [
            {"resource_name": name, "resource_type": code}
            for code in codes
            for name in _resource_names(request, _KINDS[code])
        ]
    }


def _resource_names(request: Request, kind: str) -> list[str]:
    if kind == "topic":
        return [topic.name for topic in request.cluster.part(Topics)]
    if kind in ("broker", "broker_logger"):
        return [str(node) for node in request.cluster.nodes]
    return request.cluster.part(Configs).names(kind)
