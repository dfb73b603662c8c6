"""AlterClientQuotas: sets and removes quotas of users, client ids and addresses.

Leaves out: nothing; but of the stored quotas, only producer_byte_rate and consumer_byte_rate throttle clients.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.quotas import ENTITY_TYPES, KEYS, Entity, Quotas
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("AlterClientQuotas")
async def alter_client_quotas(request: Request) -> Body:
    """Return the result for each entity."""
    return {"entries": [_alter(request, entry) async for entry in paced(request.body["entries"])]}


def _alter(request: Request, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    response = {"entity": entry["entity"], "error_code": Error.NONE, "error_message": None}
    try:
        require(request, "ALTER_CONFIGS", "CLUSTER")
        entity = _parse_entity(entry)
        values = {operation["key"]: None if operation["remove"] else operation["value"] for operation in entry["ops"]}
        if len(values) != len(entry["ops"]):
            raise ApiError(Error.INVALID_REQUEST, "Duplicate key")
        for key, value in values.items():
            _check_value(entity, key, value)
    except ApiError as api_error:
        return response | {"error_code": api_error.error, "error_message": api_error.message}
    if not request.body["validate_only"]:
        request.cluster.part(Quotas).alter(entity, values)
    return response


def _parse_entity(entry: Mapping[str, Any]) -> Entity:
    names_by_type = {component["entity_type"]: component["entity_name"] for component in entry["entity"]}
    if not names_by_type or len(names_by_type) != len(entry["entity"]):
        raise ApiError(
            Error.INVALID_REQUEST, "Invalid empty client quota entity" if not names_by_type else "Duplicate entity"
        )
    for kind, name in names_by_type.items():
        if kind not in ENTITY_TYPES:
            raise ApiError(Error.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise ApiError(Error.INVALID_REQUEST, f"Empty {kind} not supported")
    if "ip" in names_by_type:
        _check_ip(names_by_type)
    return tuple(sorted(names_by_type.items(), key=lambda item: ENTITY_TYPES.index(item[0])))


def _check_ip(names_by_type: Mapping[str, str | None]) -> None:
    if len(names_by_type) > 1:
        raise ApiError(
            Error.INVALID_REQUEST, "Invalid quota entity combination, IP entity should not be used with others."
        )
    if names_by_type["ip"] is not None:
        try:
            ipaddress.ip_address(names_by_type["ip"])
        except ValueError:
            raise ApiError(
                Error.INVALID_REQUEST, f"{names_by_type['ip']} is not a valid IP or resolvable host."
            ) from None


#: Quotas that must be whole numbers, with Kafka's name for their type.
_INTEGER_QUOTAS: Final = {
    "producer_byte_rate": ((1 << 63) - 1, "a LONG"),
    "consumer_byte_rate": ((1 << 63) - 1, "a LONG"),
    "connection_creation_rate": ((1 << 31) - 1, "an INT"),
}


def _check_value(entity: Entity, key: str, value: float | None) -> None:
    if key not in KEYS or entity[0][0] not in KEYS[key]:
        raise ApiError(Error.INVALID_REQUEST, f"Invalid configuration key {key}")
    if value is None:
        return
    if not value > 0:
        raise ApiError(Error.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    if key in _INTEGER_QUOTAS:
        maximum, type_name = _INTEGER_QUOTAS[key]
        if value > maximum:
            raise ApiError(Error.INVALID_REQUEST, f"Proposed value for {key} is too large for {type_name}.")
        if value % 1 > 1e-6:
            raise ApiError(Error.INVALID_REQUEST, f"{key} cannot be a fractional value.")
