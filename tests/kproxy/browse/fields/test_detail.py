"""What there is to see of a frame is what `kproxy explain` says of it, and made only where somebody looks."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors import records
from kproxy.browse.fields.detail import FrameDetail, side
from kproxy.browse.fields.field import MORE, FieldView
from kproxy.browse.fields.records import record_fields
from kproxy.browse.fields.records import records as records_of
from kproxy.inspection.explain import explain
from kproxy.trace.encoding import append_line, parse_line
from kproxy.trace.lines import Detail, FindingEntry, RequestLine, ResponseLine, TopicEntry
from tests.kproxy.browse.sides import request_line, response_line
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.frames import request, response
from tests.strategies import damaged, requests, responses

_CAPTURES = sorted((Path(__file__).parents[4] / "captures").glob("*.pcap.gz"))
_TRAFFIC = [
    *_CAPTURES,
    *sorted((DATA / "bugs").glob("*--java.pcap.gz")),
    *(DATA / "pcap" / f"{name}-4.3.1.pcap.gz" for name in ("java", "aiokafka", "sarama", "sasl-plain-kafka-python")),
]


def leaves(fields: Iterable[FieldView]) -> Iterator[FieldView]:
    for field in fields:
        if field.kind == MORE or field.children:
            yield from leaves(field.children)
        else:
            yield field


def innermost(detail: FrameDetail, offset: int) -> FieldView | None:
    return next(reversed(detail.at_byte(offset)), None)


def frame_lines(path: Path, detail: Detail) -> Iterator[tuple[RequestLine | ResponseLine, RequestLine | None]]:
    """The lines of frames as a trace file gives them back, each response with its request."""
    asked: dict[tuple[str, int | None], RequestLine] = {}
    for line in lines_of(path, detail=detail):
        out = bytearray()
        append_line(line, out)
        line = parse_line(bytes(out))
        if isinstance(line, RequestLine):
            asked[line.connection_id, line.correlation_id] = line
            yield line, None
        elif isinstance(line, ResponseLine):
            yield line, asked.get((line.connection_id, line.correlation_id))


def _row(path: str, start: int | None, end: int | None, value: Any, meaning: str | None) -> tuple[Any, ...] | None:
    """What both say of a field: but for tags, which a field has with it, and bytes without a value."""
    return None if value is None or value == [] else ("_tags." in path or start, end, value, meaning)


@pytest.mark.parametrize("path", _TRAFFIC, ids=lambda path: path.name)
def test_fields_are_the_rows_of_explain(path: Path) -> None:
    seen = 0
    for line, asked in frame_lines(path, Detail.RAW):
        if line.frame is None:
            assert side(line, asked).missing
            continue
        frame = base64.b64decode(line.frame)
        detail = side(line, asked)
        if isinstance(line, RequestLine):
            explanation = explain(frame)
        elif asked is not None and asked.frame is not None:
            explanation = explain(frame, request=base64.b64decode(asked.frame))
        else:
            continue
        seen += 1
        assert detail.frame == explanation.frame == frame
        rows = [
            _row(row.path, row.start, row.end, row.value, row.meaning) for row in explanation.rows if not row.counts
        ]
        fields = [
            _row(leaf.path, leaf.start, leaf.end, leaf.value, None if leaf.name == "unread" else leaf.meaning)
            for leaf in leaves(detail.fields)
        ]
        assert list(filter(None, fields)) == list(filter(None, rows))
        assert (detail.error is None) == (explanation.error is None and explanation.message.opaque is None)
    assert seen or "-on-kafkas-port" in path.name or "tls-" in path.name


@pytest.mark.parametrize("path", _TRAFFIC[:12], ids=lambda path: path.name)
def test_a_body_alone_has_the_same_values(path: Path) -> None:
    raw, full = (list(frame_lines(path, detail)) for detail in (Detail.RAW, Detail.FULL))
    for (with_bytes, asked), (without, _) in zip(raw, full, strict=True):
        if without.body is None or "records" in str(without.body):
            continue
        frame_detail = side(without, asked)
        assert frame_detail.missing == "the trace has no raw bytes: record with --detail raw"
        fields = [field for field in side(with_bytes, asked).fields if field.name == "body"]
        values = [
            (leaf.path, leaf.value, leaf.start) for leaf in leaves(frame_detail.fields) if "_tags" not in leaf.path
        ]
        assert values == [
            (leaf.path, leaf.value, None)
            for leaf in leaves(fields)
            if leaf.name != "_tags" and "_tags." not in leaf.path
        ]


def test_a_summary_has_its_facts() -> None:
    line = request_line(None, api_key=3, api="Metadata", client_id="shop",
                        topics=[TopicEntry("orders", partitions=[0, 2])])  # fmt: skip
    detail = side(line)
    assert detail.frame is None
    assert detail.missing == "the trace has no bodies or raw bytes: record with --detail raw"
    assert detail.find("topics[0].partitions[1]")[-1].value == 2
    assert {"client_id", "api", "size"} <= {field.name for field in detail.fields}
    assert "frame" not in {field.name for field in detail.fields}


def test_what_was_not_decoded_says_why() -> None:
    line = request_line(None, not_decoded="Metadata v99 is unknown")
    assert side(line).missing == "not decoded: Metadata v99 is unknown"
    [no_frame] = (side(line) for line in [request_line(b"\x00\x00")])
    assert no_frame.missing == "the trace's bytes here are not a valid frame"


def test_kinds_spans_and_meanings() -> None:
    line = request_line(request("Produce", 9, {"transactional_id": None, "acks": -1, "timeout_ms": 5, "topic_data": [
        {"name": "orders", "partition_data": [{"index": 3, "records": records.encode([{"records": [
            {"key": b"k", "value": b"v", "headers": [{"key": "h", "value": b"x"}]}]}])}]}]}))  # fmt: skip
    detail = side(line)

    def told(path: str) -> tuple[str, str, str | None]:
        found = detail.find(path)[-1]
        return found.kind, found.text, found.meaning

    assert told("header.request_api_key") == ("int16", "0", "Produce")
    assert told("transactional_id") == ("compact nullable string", "null", None)
    assert told("acks") == ("int16", "-1", "all in-sync replicas")
    assert told("topic_data") == ("compact array of struct", "1 element", None)
    assert told("topic_data[0]") == ("struct", 'name "orders"', None)
    data = "topic_data[0].partition_data[0].records"
    assert told(data)[0] == "compact nullable records"
    assert told(f"{data}[0]") == ("record batch", "", "1 record, none, CreateTime")
    assert told(f"{data}[0].crc")[::2] == ("uint32", "valid")
    assert told(f"{data}[0].records[0]") == ("record", "", "offset 0")
    assert told(f"{data}[0].records[0].key") == ("varint bytes", '"k" (1 byte)', None)
    assert told(f"{data}[0].records[0].headers[0].key") == ("varint string", '"h"', None)
    assert told("_tags") == ("tag buffer", "empty", None)


def test_a_tagged_field_has_its_tag_and_size() -> None:
    body = {"error_code": 0, "api_keys": [], "throttle_time_ms": 0, "finalized_features_epoch": 7}
    detail = side(response_line(response("ApiVersions", 3, body), 18, 3))
    [*_, found] = detail.find("_tags.finalized_features_epoch")
    assert (found.kind, found.value) == ("tag 1, int64", 7)
    assert detail.frame is not None
    assert found.start is not None
    assert detail.frame[found.start : found.end] == b"\x01\x08" + (7).to_bytes(8, "big")
    assert innermost(detail, found.start) is found


@pytest.mark.parametrize("path", _TRAFFIC[:20], ids=lambda path: path.name)
def test_from_byte_to_field_and_from_path_to_field(path: Path) -> None:
    for line, asked in frame_lines(path, Detail.RAW):
        detail = side(line, asked)
        for leaf in leaves(detail.fields) if detail.frame else ():
            if leaf.path and "_tags." not in leaf.path:
                assert detail.find(leaf.path)[-1].path == leaf.path
            if leaf.start is not None and leaf.start < (leaf.end or 0):
                at = innermost(detail, leaf.start)
                assert at is not None
                assert (at.start, at.end) == (leaf.start, leaf.end)
        assert innermost(detail, line.size) is None
        assert detail.find("no.such[0].field") == []


def test_the_finding_of_a_departed_frame_is_found_in_its_fields() -> None:
    for path in (DATA / "bugs").glob("*--java.pcap.gz"):
        for line, asked in frame_lines(path, Detail.RAW):
            detail = side(line, asked)
            for finding in detail.findings:
                if (
                    finding.edit is None
                    or finding.span is None
                    or not finding.path
                    or finding.confidence in (None, 0.0)
                ):
                    continue
                way = detail.find(finding.path)
                assert way, (path.name, finding.path)
                assert detail.departure or finding.code[0] != "L", path.name


def test_it_is_read_as_its_finding_says() -> None:
    """Whatever a diagnosis would find in the lone frame: another frame may have told more."""
    frame = response("Heartbeat", 1, {"throttle_time_ms": 0, "error_code": 0})
    moved = {"kind": "field_moved", "field": "throttle_time_ms", "detail": {"from": 0, "to": 1}}
    entry = {"code": "L003", "name": "field-misplaced", "severity": "error", "message": "m", "confidence": 0.9,
             "edit": moved}  # fmt: skip
    finding = msgspec.convert(entry, FindingEntry)
    broken = frame + b"\x00"
    detail = side(response_line(broken, 12, 1, findings=[finding]))
    assert [child.name for child in detail.find("error_code")[0].children] == ["error_code", "throttle_time_ms"]
    assert detail.departure
    unknown = msgspec.structs.replace(finding, edit=msgspec.structs.replace(finding.edit, kind="of_a_later_kproxy"))
    assert side(response_line(broken, 12, 1, findings=[unknown])).fields


def test_the_worst_finding_is_first() -> None:
    both = [FindingEntry("V003", "no-apiversions", "info", "i"), FindingEntry("L001", "trailing-bytes", "error", "e")]
    assert [
        finding.code for finding in side(request_line(request("Metadata", 1, {"topics": []}), findings=both)).findings
    ] == [
        "L001",
        "V003",
    ]


def produce(count: int) -> RequestLine:
    data = records.encode([{"records": [{"key": b"k%d" % number, "value": b"v" * 80} for number in range(count)]}])
    return request_line(request("Produce", 7, {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": [
        {"name": "t", "partition_data": [{"index": 0, "records": data}]}]}))  # fmt: skip


def test_records_are_not_read_until_they_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    from dissectors.records import batch

    read = []
    walk_record: Any = batch._walk_record
    monkeypatch.setattr(batch, "_walk_record", lambda *args: read.append(1) or walk_record(*args))
    detail = side(produce(2_000))
    [*_, held] = detail.find("topic_data[0].partition_data[0].records[0].records")
    assert (held.count, read) == (2_000, [])
    assert len(held.children) == 501
    assert len(read) == 501
    last = held.children[-1]
    assert (last.kind, last.text) == (MORE, "1,500 more")
    way = detail.find(f"{held.path}[1700].key")
    assert way[-1].value == b"k1700"
    assert [each.kind for each in way].count(MORE) == 3


def test_what_follows_is_found_by_its_bytes_too() -> None:
    detail = side(produce(2_000))
    assert detail.frame is not None
    [*_, wanted] = detail.find("topic_data[0].partition_data[0].records[0].records[1999].value")
    assert wanted.start is not None
    assert innermost(detail, wanted.start + 5) is wanted


def test_secrets_stay_secrets() -> None:
    frame = request("SaslAuthenticate", 1, {"auth_bytes": b"\0user\0hunter2"})
    detail = side(request_line(frame))
    assert detail.frame is not None
    assert b"hunter2" not in detail.frame
    assert detail.find("auth_bytes")[-1].value == "(redacted, 13 bytes)"
    withheld = side(request_line(frame[:24] + bytes(len(frame) - 24), body={}))
    assert [field.name for field in withheld.fields] == ["size", "header", "body"]
    assert str(withheld.fields[-1].value).startswith("(redacted")


def test_record_data_of_the_cluster_is_that_of_the_body() -> None:
    told = [{"base_offset": 3, "magic": 2, "records": [{"offset": 3, "key": None, "value": "(redacted, 5 bytes)"}]}]
    data = records.encode([{"base_offset": 3, "records": [{"offset": 3, "value": b"topic"}]}])
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 1, "records": data}
    answer = {"throttle_time_ms": 0, "responses": [{"topic": "__cluster_metadata", "partitions": [partition]}]}
    body = {"responses": [{"partitions": [{"records": told}]}]}
    detail = side(response_line(response("Fetch", 4, answer), 1, 4, body=body))
    assert detail.frame is not None
    assert b"topic" not in detail.frame[detail.frame.index(b"__cluster_metadata") + 18 :]
    path = "responses[0].partitions[0].records"
    assert detail.find(path)[-1].value == f"(redacted, {len(data)} bytes)"
    assert detail.find(f"{path}[0].records[0].value")[-1].value == "(redacted, 5 bytes)"


def everything(detail: FrameDetail) -> None:
    """Look at all there is, as far as a viewer would."""
    budget = 2_000
    waiting = list(detail.fields)
    while waiting and budget:
        each = waiting.pop()
        budget -= 1
        assert isinstance(each.text, str)
        waiting += each.children
    for offset in range(0, len(detail.frame or b""), 7):
        innermost(detail, offset)
    for each in record_fields(detail.fields):
        records_of(each, 20)


@given(damaged(requests()))
def test_any_request_can_be_looked_at(frame: bytes) -> None:
    everything(side(request_line(frame)))


@given(responses().flatmap(lambda made: st.tuples(damaged(st.just(made[0])), st.just(made[1]), st.just(made[2]))))
def test_any_response_can_be_looked_at(made: tuple[bytes, int, int]) -> None:
    everything(side(response_line(*made)))


_BATCHES = records.encode([
    {"compression": codec, "records": [{"key": b"k", "value": b"v" * 30, "headers": [{"key": "h", "value": None}]}] * 3}
    for codec in ("none", "gzip", "lz4")
] + [{"magic": magic, "compression": codec, "records": [{"offset": 4, "timestamp": 1, "key": b"k", "value": b"v" * 9}]}
     for magic in (0, 1) for codec in ("none", "gzip")])  # fmt: skip


@given(damaged(st.just(_BATCHES)))
def test_any_record_data_can_be_looked_at(data: bytes) -> None:
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 1, "records": data}
    answer = {"throttle_time_ms": 0, "responses": [{"topic": "t", "partitions": [partition]}]}
    everything(side(response_line(response("Fetch", 4, answer), 1, 4)))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_body_can_be_looked_at(value: Any) -> None:
    line = response_line(None, 1, 4, body={"responses": value, "x": value})
    everything(side(line))
    partitions = [{"records": value}]
    everything(side(msgspec.structs.replace(line, body={"responses": [{"topic": "t", "partitions": partitions}]})))
