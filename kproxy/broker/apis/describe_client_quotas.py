"""DescribeClientQuotas: returns the quotas of users, client ids and addresses that match a filter.

Leaves out: nothing; but of the stored quotas, only producer_byte_rate and consumer_byte_rate throttle clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.quotas import ENTITY_TYPES, Entity, Quotas
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


@api("DescribeClientQuotas")
def describe_client_quotas(request: Request) -> Body:
    """Return the quotas that match every component; with `strict`, only quotas without further components."""
    components, strict = request.body["components"], request.body["strict"]
    try:
        require(request, "DESCRIBE_CONFIGS", "CLUSTER")
        _check_components(components)
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.message, "entries": None}
    return {
        "entries": [
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
                "values": [{"key": key, "value": value} for key, value in values.items()],
            }
            for entity, values in request.cluster.part(Quotas)
            if _matches(entity, components, strict=strict)
        ],
    }


def _check_components(components: Sequence[Mapping[str, Any]]) -> None:
    types = [component["entity_type"] for component in components]
    for kind in types:
        if kind not in ENTITY_TYPES:
            error = Error.UNSUPPORTED_VERSION if kind else Error.INVALID_REQUEST
            raise ApiError(
                error, f"Unsupported entity type {kind}" if kind else "Unexpected empty filter component entity type"
            )
    if len(set(types)) != len(types):
        raise ApiError(Error.INVALID_REQUEST, "Duplicate filter component entity type")
    if "ip" in types and len(types) > 1:
        raise ApiError(Error.INVALID_REQUEST, "Invalid entity filter component combination")
    for component in components:
        if component["match_type"] not in (_EXACT, _DEFAULT, _ANY):
            raise ApiError(Error.INVALID_REQUEST, f"Unknown match type {component['match_type']}")
        if component["match_type"] == _EXACT and component["match"] is None:
            raise ApiError(Error.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")


def _matches(entity: Entity, components: Sequence[Mapping[str, Any]], *, strict: bool) -> bool:
    names_by_type = dict(entity)
    if strict and len(names_by_type) != len(components):
        return False
    for component in components:
        kind, match_type = component["entity_type"], component["match_type"]
        if kind not in names_by_type:
            return False
        if match_type == _EXACT and names_by_type[kind] != component["match"]:
            return False
        if match_type == _DEFAULT and names_by_type[kind] is not None:
            return False
    return True
