"""Extreme values in requests about data: each is answered, nothing breaks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dissectors import schemas
from dissectors.wire.layout import NULL_UUID, Field, Layout, layout
from tests.kproxy.broker.data_asked import topic_id
from tests.kproxy.broker.log.sample_logs import sent
from tests.kproxy.broker.socket_client import asked

APIS = ("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords")
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
DATA = (
    sent(),
    sent(2, compression="zstd"),
    sent(producer_id=1, producer_epoch=0, base_sequence=0),
    sent(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
    sent()[:-1],
    b"",
    bytes(61),
    b"\xff" * 200,
)


def extreme(field: Field, topic: str) -> st.SearchStrategy[Any]:
    """Values of a field: those that fit, and the greatest and least that its type has."""
    if field.name in ("max_wait_ms", "timeout_ms"):
        return st.just(0)
    if field.struct is not None:
        element: st.SearchStrategy[Any] = body(field.struct, topic)
    elif field.type in BITS:
        most = 1 << BITS[field.type] - 1
        element = st.sampled_from([0, 0, 0, 1, 2, -1, -2, most - 1, -most])
    else:
        element = {
            "string": st.sampled_from(["t", "t", "", "none", "x" * 300]),
            "uuid": st.sampled_from([topic, topic, NULL_UUID, "A" * 21 + "Q"]),
            "records": st.sampled_from(DATA),
            "bool": st.booleans(),
        }[field.type]
    value = st.lists(element, max_size=3) if field.array else element
    return value | st.none() if field.nullable else value


def body(of: Layout, topic: str) -> st.SearchStrategy[dict[str, Any]]:
    """A struct with such fields; tagged ones are there or not."""
    plain = {field.name: extreme(field, topic) for field in of.fields}
    return st.fixed_dictionaries(plain, optional={field.name: extreme(field, topic) for field in of.tagged})


@pytest.mark.parametrize("api", APIS)
async def test_every_request_is_answered(api: str) -> None:
    known = schemas.api_by_name(api)
    assert known is not None
    async with asked(topics={"t": 2}) as ask:
        topic, drawn = topic_id(ask, "t"), []

        @settings(max_examples=8, suppress_health_check=list(HealthCheck), deadline=None)
        @given(st.data())
        def draw(data: st.DataObject) -> None:
            versions = range(known.min_version, known.max_version + 1)
            drawn.extend((version, data.draw(body(layout(f"{api}Request", version), topic))) for version in versions)

        draw()
        for version, values in drawn:
            if values.get("acks") == 0:
                continue
            await ask(api, version, values)
        assert len(drawn) > 20
