"""The resource in a request about configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kproxy.broker.access import CLUSTER
from kproxy.broker.configs.configs import CODES, Configs
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics, check_name

_KINDS: Final = {code: kind for kind, code in CODES.items()}


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource. `guard` and `guarded` are the type and name of the resource whose ACLs protect it."""

    kind: str
    name: str
    guard: str
    guarded: str


def find_resource(request: Request, entry: Mapping[str, Any]) -> Resource:
    """Return the resource that an entry's ``resource_type`` and ``resource_name`` identify.

    Raises:
        ApiError: It does not exist or is invalid: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION.
    """
    kind, name = _KINDS.get(entry["resource_type"]), entry["resource_name"]
    if kind is None or not request.cluster.part(Configs).has(kind):
        raise ApiError(Error.INVALID_REQUEST, f"Unknown resource type {entry['resource_type']}")
    if kind == "topic":
        check_name(name)
        if request.cluster.part(Topics).by_name(name) is None:
            raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return Resource(kind, name, "TOPIC", name)
    if kind in ("broker", "broker_logger"):
        if name != str(request.node.id) and (name or kind == "broker_logger"):
            expected = f"expected {request.node.id}" + (" or empty string" if kind == "broker" else "")
            raise ApiError(Error.INVALID_REQUEST, f"Unexpected broker id, {expected}, but received {name:.50}")
    elif not name:
        label = "Group name" if kind == "group" else "Client metrics subscription name"
        raise ApiError(Error.INVALID_REQUEST, f"{label} must not be empty")
    return Resource(kind, name, "GROUP" if kind == "group" else "CLUSTER", name if kind == "group" else CLUSTER)
