"""Every API, requested by a client that has no permission."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dissectors import schemas
from dissectors.wire.layout import Field, layout
from kproxy.broker.registry import served_apis
from tests.kproxy.broker.socket_client import broker_client

#: APIs that need no permission, or return only what the client may see.
UNRESTRICTED = {
    "ApiVersions",
    "SaslHandshake",
    "SaslAuthenticate",
    "ListGroups",
    "ListTransactions",
    "DescribeCluster",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "CreateDelegationToken",  # the owner of a token is authorized
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
}
LAST_VERSION_BY_NAME = {"Produce": 12, "Fetch": 12, "DeleteTopics": 5}  # later versions name topics by id
NUMBERS = {
    "acks": 1, "transaction_timeout_ms": 1000, "resource_type": 2, "resource_type_filter": 2, "pattern_type_filter": 3,
    "resource_pattern_type": 3, "operation": 3, "permission_type": 3,
}  # fmt: skip
NAMES = {"transactional_id": "t", "v3_and_below_transactional_id": "t", "topic_id": "A" * 22}


def sample_value(field: Field) -> Any:
    result: Any = field.default
    if field.struct is not None:
        result = {field.name: sample_value(field) for field in field.struct.fields}
    elif "string" in field.type:
        result = NAMES.get(field.name, "a")
    elif "int" in field.type:
        result = NUMBERS.get(field.name, 0)
    return [result] if field.array else result


def error_names(body: Any) -> Iterator[str]:
    if isinstance(body, Mapping):
        for name, inner in body.items():
            if name.endswith("error_code"):
                yield schemas.error_name(inner) or ""
            yield from error_names(inner)
    elif isinstance(body, list):
        for element in body:
            yield from error_names(element)


@pytest.mark.parametrize(
    "name", sorted(api.api.name for api in served_apis().values() if api.api.name not in UNRESTRICTED)
)
async def test_every_api_requires_authorization(name: str) -> None:
    api_info = schemas.api_by_name(name)
    assert api_info is not None
    version = LAST_VERSION_BY_NAME.get(name, served_apis()[api_info.key].highest)
    fields = {field.name: sample_value(field) for field in layout(f"{name}Request", version).fields}
    async with broker_client(topics={"a": 1}, acls=True) as client:
        body = await client(name, version, fields)
    codes = set(error_names(body)) - {"NONE"}
    assert codes
    assert all(error.endswith("_AUTHORIZATION_FAILED") for error in codes)
