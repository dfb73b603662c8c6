"""Extreme values in requests about data: every request gets a response."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dissectors import schemas
from dissectors.wire.layout import NULL_UUID, Field, Layout, layout
from tests.kproxy.broker.data_requests import topic_id
from tests.kproxy.broker.log.sample_logs import produced_batch
from tests.kproxy.broker.socket_client import broker_client

APIS = ("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords")
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
DATA = (
    produced_batch(),
    produced_batch(2, compression="zstd"),
    produced_batch(producer_id=1, producer_epoch=0, base_sequence=0),
    produced_batch(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
    produced_batch()[:-1],
    b"",
    bytes(61),
    b"\xff" * 200,
)


def field_values(field: Field, topic: str) -> st.SearchStrategy[Any]:
    """Return a strategy for a field: valid values, and the maximum and minimum of its type."""
    if field.name in ("max_wait_ms", "timeout_ms"):
        return st.just(0)
    if field.struct is not None:
        element: st.SearchStrategy[Any] = struct_values(field.struct, topic)
    elif field.type in BITS:
        limit = 1 << BITS[field.type] - 1
        element = st.sampled_from([0, 0, 0, 1, 2, -1, -2, limit - 1, -limit])
    else:
        element = {
            "string": st.sampled_from(["t", "t", "", "none", "x" * 300]),
            "uuid": st.sampled_from([topic, topic, NULL_UUID, "A" * 21 + "Q"]),
            "records": st.sampled_from(DATA),
            "bool": st.booleans(),
        }[field.type]
    value = st.lists(element, max_size=3) if field.array else element
    return value | st.none() if field.nullable else value


def struct_values(layout_: Layout, topic: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for a struct with such fields; tagged fields are optional."""
    required = {field.name: field_values(field, topic) for field in layout_.fields}
    return st.fixed_dictionaries(
        required, optional={field.name: field_values(field, topic) for field in layout_.tagged}
    )


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
async def test_every_request_that_expects_a_response_gets_one(api: str) -> None:
    api_info = schemas.api_by_name(api)
    assert api_info is not None
    async with broker_client(topics={"t": 2}) as client:
        topic, drawn_requests = topic_id(client, "t"), []

        @settings(max_examples=8, suppress_health_check=list(HealthCheck), deadline=None)
        @given(st.data())
        def draw(data: st.DataObject) -> None:
            versions = range(api_info.min_version, api_info.max_version + 1)
            drawn_requests.extend(
                (version, data.draw(struct_values(layout(f"{api}Request", version), topic))) for version in versions
            )

        draw()
        for version, values in drawn_requests:
            if values.get("acks") == 0:
                continue
            await client(api, version, values)
        assert len(drawn_requests) > 20
