"""P011: which records are compared, and what its findings contain."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from dissectors.connections.events import Direction
from dissectors.records import encode
from dissectors.trackers import produced_records
from dissectors.trackers.produced_records import ProducedRecords
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.masks import Masks
from kproxy.inspection.record_values import RecordValues
from kproxy.trace.lines import Detail, FindingEntry, ResponseLine
from tests.kproxy.frames import request, response
from tests.serialized import ORDER, sample_registry

TIMESTAMP_MS = 1_767_225_600_000  # ms
NS_PER_MS = 1_000_000
STRIPPED = ORDER[5:]
PATH = "responses[0].partitions[0].records[0].records"


class RecordTraffic:
    """A producer on connection 1 and consumers on other connections, all of one topic."""

    def __init__(self, *masks: str) -> None:
        values = RecordValues(sample_registry(), Masks(masks))
        self.inspector = Inspector("t", Detail.FULL, record_values=values)
        self.at = TIMESTAMP_MS * NS_PER_MS
        for number, server in ((1, "a:9092"), (2, "a:9092"), (3, "b:9092")):
            self.inspector.open(number, "c:1", server, at=self.at)

    def memory(self) -> int:
        """Return the size in bytes of all objects that the tracker keeps."""
        objects: dict[int, Any] = {}
        pending = list(vars(self.inspector._inspection.run_state.state(ProducedRecords)).values())
        while pending:
            if id(obj := pending.pop()) not in objects and not isinstance(obj, type):
                objects[id(obj)] = obj
                pending += gc.get_referents(obj)
        return sum(map(sys.getsizeof, objects.values()))

    def send(self, number: int, direction: Direction, frame: bytes) -> list[FindingEntry]:
        self.at += NS_PER_MS
        lines = self.inspector.receive_data(number, direction, frame, at=self.at)
        self.frame = frame
        reported = [finding for line in lines if isinstance(line, ResponseLine) for finding in line.findings]
        assert not [finding for finding in reported if finding.code == "K007"]  # a bug in kproxy
        return [finding for finding in reported if finding.code == "P011"]

    def produce(self, *values: bytes | None, acks: int = 1, partition: int = 0, **fields: Any) -> None:
        records = [{"value": value, "timestamp": TIMESTAMP_MS, **fields} for value in values]
        self.produce_batches({"records": records}, acks=acks, partition=partition)

    def produce_batches(self, *batches: dict[str, Any], acks: int = 1, partition: int = 0, number: int = 1) -> None:
        rows = [{"index": partition, "records": encode(batches)}]
        body = {"acks": acks, "timeout_ms": 9, "topic_data": [{"name": "orders", "partition_data": rows}]}
        self.send(number, Direction.REQUEST, request("Produce", 9, body))

    def answer(self, offset: int = 7, error: int = 0, number: int = 1) -> list[FindingEntry]:
        rows = [{"index": 0, "base_offset": offset, "error_code": error}]
        body = {"responses": [{"name": "orders", "partition_responses": rows}]}
        return self.send(number, Direction.RESPONSE, response("Produce", 9, body))

    def delete(self) -> None:
        self.send(2, Direction.REQUEST, request("DeleteTopics", 3, {"topic_names": ["orders"]}))
        self.send(2, Direction.RESPONSE, response("DeleteTopics", 3, {"responses": [{"name": "orders"}]}))

    def fetch(self, *values: bytes | None, offset: int = 7, number: int = 2, **batch: Any) -> list[FindingEntry]:
        records = [{"value": value, "timestamp": TIMESTAMP_MS} for value in values]
        data = encode([{"base_offset": offset, "records": records, **batch}])
        self.send(
            number, Direction.REQUEST, request("Fetch", 12, {"topics": [{"topic": "orders", "partitions": [{}]}]})
        )
        rows = [{"partition_index": 0, "high_watermark": 99, "records": data}]
        body = {"responses": [{"topic": "orders", "partitions": rows}]}
        return self.send(number, Direction.RESPONSE, response("Fetch", 12, body))


@pytest.fixture
def traffic() -> RecordTraffic:
    return RecordTraffic()


def test_finding_points_at_the_changed_part(traffic: RecordTraffic) -> None:
    changed_value = ORDER[:5] + b"\x24" + ORDER[6:]
    traffic.produce(None, ORDER, headers=[{"key": "trace", "value": b"1"}])
    assert traffic.answer() == []
    headers_finding, value_finding = traffic.fetch(None, changed_value)
    assert (headers_finding.path, value_finding.path) == (f"{PATH}[0].headers", f"{PATH}[1].value")
    assert value_finding.message == (
        "orders, value: offset 8 is not as it was produced: the field id differs "
        "(produced 3 ms before the fetch, with correlation id 1 on connection t-1)"
    )
    assert (value_finding.severity, value_finding.blame, traffic.frame[slice(*value_finding.span or ())]) == (
        "warning",
        "broker",
        changed_value[5:],
    )
    assert traffic.frame[slice(*headers_finding.span or ())] == b"\0"  # the number of headers
    assert traffic.fetch(None, changed_value) == []  # reported only once


def test_changes_are_found_in_compressed_records(traffic: RecordTraffic) -> None:
    traffic.produce(ORDER, None, b"", b"text")
    traffic.answer()
    assert traffic.fetch(ORDER, None, b"", b"text", compression="gzip") == []
    [change] = traffic.fetch(STRIPPED, None, b"", b"text", compression="gzip")
    assert change.path == f"{PATH}[0].value"


def test_record_that_became_null_is_reported(traffic: RecordTraffic) -> None:
    traffic.produce(ORDER, None)
    traffic.answer()
    reported = traffic.fetch(None, b"")
    assert [finding.path for finding in reported] == [f"{PATH}[0].value"]  # one of two changes with the same cause
    assert "it was 16 bytes, and is null" in reported[0].message


def test_record_fetched_before_the_produce_response_is_compared(traffic: RecordTraffic) -> None:
    traffic.produce(ORDER)
    assert traffic.fetch(STRIPPED) == []
    [change] = traffic.answer()
    assert (change.path, change.span) == (None, None)
    assert change.message.startswith("orders, value: offset 7 is not as it was produced: its envelope with schema id 2")
    traffic.produce(ORDER)
    assert traffic.fetch(ORDER, offset=8) == []
    assert traffic.answer(8) == []


@pytest.mark.parametrize(
    ("produce_fields", "response_fields", "fetch_fields"),
    [
        ({}, {}, {"number": 3}),  # from another server
        ({}, {}, {"offset": 8}),
        ({"partition": 1}, {}, {}),
        ({}, {"offset": -1}, {}),
        ({}, {"error": 46}, {}),  # DUPLICATE_SEQUENCE_NUMBER
        ({"acks": 0}, {}, {}),
        ({}, {}, {"is_control": True, "is_transactional": True}),
    ],
)
def test_records_that_cannot_be_paired_are_not_compared(
    traffic: RecordTraffic,
    produce_fields: dict[str, Any],
    response_fields: dict[str, Any],
    fetch_fields: dict[str, Any],
) -> None:
    traffic.produce(ORDER, **produce_fields)
    traffic.answer(**response_fields)
    value = b"\0\0\0\1" if "is_control" in fetch_fields else STRIPPED
    assert traffic.fetch(value, **fetch_fields) == []


def test_recreated_topic_is_not_compared_with_the_old_one(traffic: RecordTraffic) -> None:
    traffic.produce(ORDER)
    traffic.answer()
    traffic.delete()
    assert traffic.fetch(STRIPPED) == []
    traffic.produce(ORDER)
    traffic.fetch(STRIPPED)
    traffic.delete()
    assert traffic.answer() == []


def test_record_fetched_before_another_was_produced_is_not_compared(traffic: RecordTraffic) -> None:
    traffic.produce(ORDER)
    traffic.fetch(STRIPPED, offset=8)
    traffic.inspector.open(4, "c:1", "a:9092", at=traffic.at)
    traffic.produce_batches({"records": [{"value": ORDER, "timestamp": TIMESTAMP_MS}]}, number=4)
    assert traffic.answer(8, number=4) == []


def test_second_produce_with_the_same_correlation_id_is_not_compared(traffic: RecordTraffic) -> None:
    traffic.produce(ORDER)
    traffic.produce_batches({"magic": 1, "records": [{"value": ORDER}]})
    traffic.answer()
    assert traffic.fetch(STRIPPED) == []


def test_memory_is_bounded_by_forgetting_old_records(traffic: RecordTraffic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produced_records, "MAX_BYTES", 2000)
    values = [ORDER + bytes([number]) for number in range(10)]
    for number, value in enumerate(values):
        traffic.produce(value)
        traffic.answer(number)
    assert traffic.fetch(*[STRIPPED] * 7, offset=0) == []
    assert [finding.path for finding in traffic.fetch(STRIPPED, offset=9)] == [f"{PATH}[0].value"]
    traffic.produce(bytes(3000))
    traffic.answer(10)
    assert traffic.fetch(STRIPPED, offset=10) == []
    traffic.produce(b"text")
    traffic.answer(11)
    assert [finding.path for finding in traffic.fetch(b"", offset=11)] == [f"{PATH}[0].value"]


@pytest.mark.parametrize(
    "batches",
    [
        [{"magic": 1, "records": [{"value": bytes(1000)}]}],
        [{"records": [{"value": b"a", "headers": [{"key": "", "value": None}] * 20}]}],
        [{"records": [{"value": b"a"}]}, {"compression": "gzip", "records": [{"value": bytes(10_000)}]}],
    ],
    ids=["an old format", "empty headers", "several batches"],
)
def test_memory_is_bounded_without_responses(
    traffic: RecordTraffic, monkeypatch: pytest.MonkeyPatch, batches: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr(produced_records, "MAX_BYTES", 20_000)
    for number in range(4, 50):
        traffic.inspector.open(number, "c:1", "a:9092", at=traffic.at)
        traffic.produce_batches(*batches, number=number)
    assert traffic.memory() < 25_000


def test_memory_of_pending_requests_is_freed_with_the_connection(traffic: RecordTraffic) -> None:
    memory_before = traffic.memory()
    traffic.produce(b"a")
    traffic.fetch(b"b")
    traffic.fetch(b"c", offset=8)
    assert traffic.memory() > memory_before + 1000
    traffic.inspector.close(2, at=traffic.at)
    assert traffic.memory() > memory_before + 1000
    traffic.inspector.close(1, at=traffic.at)
    assert traffic.memory() < memory_before + 500


def test_early_fetched_records_are_dropped_when_no_produce_is_pending(traffic: RecordTraffic) -> None:
    memory_before = traffic.memory()
    traffic.produce(b"a")
    traffic.fetch(b"b", offset=8)
    traffic.answer(error=6)
    assert traffic.memory() < memory_before + 500


def test_only_the_first_of_several_batches_has_an_offset(traffic: RecordTraffic) -> None:
    batch = encode([{"records": [{"value": ORDER, "timestamp": TIMESTAMP_MS}]}])
    rows = [{"index": 0, "records": batch + encode([{"records": [{"value": b"text", "timestamp": TIMESTAMP_MS}]}])}]
    body = {"acks": 1, "topic_data": [{"name": "orders", "partition_data": rows}]}
    traffic.send(1, Direction.REQUEST, request("Produce", 9, body))
    traffic.answer()
    assert traffic.fetch(ORDER) == []


def test_findings_with_masks_contain_no_name_or_value() -> None:
    traffic = RecordTraffic("orders:value.id")
    traffic.produce(ORDER, b'{"planted": 1}', headers=[{"key": "planted", "value": b"planted"}])
    traffic.answer()
    reported = traffic.fetch(STRIPPED, b'{"plante": 1}')
    assert len(reported) == 3
    assert "plante" not in repr(reported)
