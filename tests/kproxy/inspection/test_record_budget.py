"""The work spent on records is limited over time, and omitted records are counted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from dissectors.connections.events import Direction
from dissectors.records import decode
from dissectors.records.allowance import Allowance
from dissectors.records.encode import encode
from dissectors.values import Schema, SchemaKey
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.masks import Masks
from kproxy.inspection.record_budget import LIVE_ADVANCE, PER_SECOND, RecordBudget
from kproxy.inspection.record_values import RecordValues
from kproxy.registry import SchemaSource, SchemaSources
from kproxy.trace.lines import Detail, RequestLine
from tests.kproxy.frames import request

SECOND = 1_000_000_000
RECORD = {"key": None, "value": b'{"a":1}', "timestamp": 1}


def produce(*batches: dict[str, Any]) -> bytes:
    data = [{"index": index, "records": encode([batch])} for index, batch in enumerate(batches)]
    body = {"acks": 0, "timeout_ms": 1000, "topic_data": [{"name": "t", "partition_data": data}]}
    return request("Produce", 9, body)


def batch(count: int, compression: str = "zstd", **fields: Any) -> dict[str, Any]:
    return {"compression": compression, "records": [RECORD | fields] * count}


class LimitedInspection:
    """An inspection with a small budget."""

    def __init__(
        self,
        *,
        payloads: bool = True,
        advance: int = 10_000,
        per_second: int = 10_000,
        source: SchemaSource | None = None,
    ) -> None:
        values = RecordValues(source or SchemaSources([]), Masks((), (), None)) if payloads else None
        self.inspector = Inspector(
            "t",
            Detail.FULL,
            record_values=values,
            withholds_records=not payloads,
            record_budget=RecordBudget(advance, per_second),
        )
        for number in range(2):
            self.inspector.open(number, "a:1", "b:2", at=0)

    def batches(self, frame: bytes, *, at: int = 1, connection: int = 0) -> list[dict[str, Any]]:
        lines = self.inspector.receive_data(connection, Direction.REQUEST, frame, at=at)
        [line] = [line for line in lines if isinstance(line, RequestLine)]
        assert line.body is not None
        assert not line.findings
        return list(_batches(line.body))


def _batches(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for topic in body["topic_data"]:
        for partition in topic["partition_data"]:
            yield from partition["records"]


@pytest.mark.parametrize("payloads", [True, False])
def test_highly_compressed_records_are_omitted_and_counted(*, payloads: bool) -> None:
    [decoded] = LimitedInspection(payloads=payloads).batches(produce(batch(20_000)))
    omitted_count = decoded["records_left_out"]
    assert len(decoded["records"]) + omitted_count == 20_000
    assert omitted_count > 15_000
    assert all(isinstance(record["value"], dict) for record in decoded["records"])
    assert len(decoded["records"]) > 100


def test_all_connections_share_the_budget_and_time_refills_it() -> None:
    inspection, frame = LimitedInspection(), produce(batch(300))
    first_count, second_count, later_count = (
        len(inspection.batches(frame, at=at, connection=connection)[0]["records"])
        for connection, at in ((0, 1), (1, 2), (0, SECOND))
    )
    assert (first_count, later_count) == (300, 300)
    assert second_count < 50
    assert inspection.batches(frame, at=2 * SECOND)[0].get("records_left_out") is None


def test_time_that_runs_backwards_adds_no_budget() -> None:
    inspection, frame = LimitedInspection(), produce(batch(300))
    counts = [len(inspection.batches(frame, at=at)[0]["records"]) for at in (10 * SECOND, 0, 10 * SECOND)]
    assert counts[0] == 300
    assert counts[2] < 50


def test_budget_steps_earned_in_small_parts_add_up() -> None:
    budget = RecordBudget(advance=3000, per_second=1000)
    for at in range(0, SECOND, SECOND // 10_000):
        with budget.allowance(0, at=at, decodes_values=True) as allowance:
            if at == 0:
                allowance.charge(3000)
    assert 998 < allowance.steps <= 1000


def test_uncompressed_records_of_ordinary_size_are_not_limited() -> None:
    inspection = LimitedInspection(advance=0)
    [decoded] = inspection.batches(produce(batch(1000, "none", value=b'{"name": "%b"}' % (b"x" * 100))))
    assert "records_left_out" not in decoded


def test_decodes_a_busy_stream_of_compressed_records_completely() -> None:
    inspection = LimitedInspection(advance=LIVE_ADVANCE // 100, per_second=PER_SECOND // 100)
    frame = produce(batch(10, key=b"key", value=b'{"name": "%b"}' % (b"x" * 100)))
    for index in range(40):  # 100 records a second, with one hundredth of the budget
        assert "records_left_out" not in inspection.batches(frame, at=index * SECOND // 10)[0]


def test_many_headers_cost_as_much_as_many_records() -> None:
    headers = [{"key": "h", "value": b"1"}] * 100
    [decoded] = LimitedInspection().batches(produce(batch(200, headers=headers)))
    assert decoded["records_left_out"] > 190


def test_all_partitions_of_a_frame_share_the_budget() -> None:
    decoded = LimitedInspection().batches(produce(*[batch(250)] * 4))
    assert [len(batch["records"]) == 250 for batch in decoded] == [True, False, False, False]
    assert decoded[3] == decoded[3] | {"records": [], "records_left_out": 250}


@pytest.mark.parametrize("magic", [0, 1])
def test_omits_wrapped_messages_above_the_budget(magic: int) -> None:
    wrapped = {"magic": magic, "compression": "gzip", "records": [{"offset": n, "value": b"x"} for n in range(2000)]}
    [limited] = decode(encode([wrapped]), allowance=Allowance(10_000))
    assert 100 < len(limited["records"]) < 500
    assert limited["records_left_out"] is None
    [unlimited] = decode(encode([wrapped]), allowance=Allowance(1_000_000))
    assert unlimited == decode(encode([wrapped]))[0]


def test_omits_internal_records_above_the_budget() -> None:
    frame = produce(batch(5000, key=bytes((0, 1, 0, 1, 103, 0, 1, 116, 0, 0, 0, 0)), value=None))
    offsets_frame = frame.replace(b"\x02t\x02", b"\x13__consumer_offsets\x02", 1)
    frame = (len(offsets_frame) - 4).to_bytes(4, "big") + offsets_frame[4:]
    [decoded] = LimitedInspection().batches(frame)
    assert decoded["records"][0]["key"]["type"] == "OffsetCommitKey"
    assert len(decoded["records"]) + decoded["records_left_out"] == 5000
    assert len(decoded["records"]) < 100


def test_reports_damage_if_nothing_is_omitted() -> None:
    data = encode([batch(3, "none")]) + b"\0" * 3
    assert decode(data, allowance=Allowance(10_000)) == decode(data)
    damaged = bytearray(encode([batch(3, "none")]))
    damaged[60] = 4  # claims one record too many
    assert decode(bytes(damaged), allowance=Allowance(10_000)) == decode(bytes(damaged))
    assert "error" in decode(bytes(damaged))[0]


class _SingleSchema:
    """A source with one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def lookup(self, keys: Iterable[SchemaKey]) -> dict[SchemaKey, Schema | str]:
        return dict.fromkeys(keys, self._schema)


def test_expensive_schema_uses_up_the_budget() -> None:
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(7)} | {"d7": {}}
    schema = Schema("JSON", json.dumps({"$defs": definitions, "$ref": "#/$defs/d0"}))
    frame = produce(batch(100, value=b'\0\0\0\0\1{"a":1}'))
    inspection = LimitedInspection(source=_SingleSchema(schema))
    [decoded] = inspection.batches(frame)
    assert decoded["records_left_out"] > 80
    assert decoded["records"][0]["value"]["format"] == "json-schema"
