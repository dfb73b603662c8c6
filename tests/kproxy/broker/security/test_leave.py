"""What somebody may do who may do nothing: each API is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dissectors import schemas
from dissectors.wire.layout import Field, layout
from kproxy.broker.registry import served
from tests.kproxy.broker.socket_client import asked

#: These need no leave, or show only what one has leave to see.
FREE = {
    "ApiVersions",
    "SaslHandshake",
    "SaslAuthenticate",
    "ListGroups",
    "ListTransactions",
    "DescribeCluster",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "CreateDelegationToken",  # of tokens the owner decides
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
}
BY_NAME = {"Produce": 12, "Fetch": 12, "DeleteTopics": 5}  # of later versions: topics by id, which nobody knows
NUMBERS = {
    "acks": 1, "transaction_timeout_ms": 1000, "resource_type": 2, "resource_type_filter": 2, "pattern_type_filter": 3,
    "resource_pattern_type": 3, "operation": 3, "permission_type": 3,
}  # fmt: skip
NAMES = {"transactional_id": "t", "v3_and_below_transactional_id": "t", "topic_id": "A" * 22}


def value(field: Field) -> Any:
    found: Any = field.default
    if field.struct is not None:
        found = {field.name: value(field) for field in field.struct.fields}
    elif "string" in field.type:
        found = NAMES.get(field.name, "a")
    elif "int" in field.type:
        found = NUMBERS.get(field.name, 0)
    return [found] if field.array else found


def errors(body: Any) -> Iterator[str]:
    if isinstance(body, Mapping):
        for name, inner in body.items():
            if name.endswith("error_code"):
                yield schemas.error_name(inner) or ""
            yield from errors(inner)
    elif isinstance(body, list):
        for element in body:
            yield from errors(element)


@pytest.mark.parametrize("name", sorted(api.api.name for api in served().values() if api.api.name not in FREE))
async def test_nothing_goes_without_leave(name: str) -> None:
    known = schemas.api_by_name(name)
    assert known is not None
    version = BY_NAME.get(name, served()[known.key].highest)
    fields = {field.name: value(field) for field in layout(f"{name}Request", version).fields}
    async with asked(topics={"a": 1}, acls=True) as ask:
        body = await ask(name, version, fields)
    found = set(errors(body)) - {"NONE"}
    assert found
    assert all(error.endswith("_AUTHORIZATION_FAILED") for error in found)
