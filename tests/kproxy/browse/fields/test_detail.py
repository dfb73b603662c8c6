"""The fields of a frame equal the output of `kproxy explain`, and are built only when they are viewed."""

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
from kproxy.browse.fields.detail import FrameDetail, build_frame_detail
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
    """Yield the lines of frames as read back from a trace file, each response with its request."""
    requests: dict[tuple[str, int | None], RequestLine] = {}
    for line in lines_of(path, detail=detail):
        encoded = bytearray()
        append_line(line, encoded)
        line = parse_line(bytes(encoded))
        if isinstance(line, RequestLine):
            requests[line.connection_id, line.correlation_id] = line
            yield line, None
        elif isinstance(line, ResponseLine):
            yield line, requests.get((line.connection_id, line.correlation_id))


def _comparable_row(
    path: str, start: int | None, end: int | None, value: Any, meaning: str | None
) -> tuple[Any, ...] | None:
    """Return the facts that `explain` and the details both show, without tag spans; None if the row has no value."""
    return None if value is None or value == [] else ("_tags." in path or start, end, value, meaning)


@pytest.mark.parametrize("path", _TRAFFIC, ids=lambda path: path.name)
def test_fields_equal_the_rows_of_explain(path: Path) -> None:
    checked_count = 0
    for line, sent_request in frame_lines(path, Detail.RAW):
        if line.frame is None:
            assert build_frame_detail(line, sent_request).missing
            continue
        frame = base64.b64decode(line.frame)
        detail = build_frame_detail(line, sent_request)
        if isinstance(line, RequestLine):
            explanation = explain(frame)
        elif sent_request is not None and sent_request.frame is not None:
            explanation = explain(frame, request=base64.b64decode(sent_request.frame))
        else:
            continue
        checked_count += 1
        assert detail.frame == explanation.frame == frame
        rows = [
            _comparable_row(row.path, row.start, row.end, row.value, row.meaning)
            for row in explanation.rows
            if not row.counts
        ]
        fields = [
            _comparable_row(
                leaf.path, leaf.start, leaf.end, leaf.value, None if leaf.name == "unread" else leaf.meaning
            )
            for leaf in leaves(detail.fields)
        ]
        assert list(filter(None, fields)) == list(filter(None, rows))
        assert (detail.error is None) == (explanation.error is None and explanation.message.opaque is None)
    assert checked_count or "-on-kafkas-port" in path.name or "tls-" in path.name


@pytest.mark.parametrize("path", _TRAFFIC[:12], ids=lambda path: path.name)
def test_line_without_a_frame_has_the_same_values(path: Path) -> None:
    raw, full = (list(frame_lines(path, detail)) for detail in (Detail.RAW, Detail.FULL))
    for (raw_line, sent_request), (full_line, _) in zip(raw, full, strict=True):
        if full_line.body is None or "records" in str(full_line.body):
            continue
        frame_detail = build_frame_detail(full_line, sent_request)
        assert frame_detail.missing == "the trace has no raw bytes: record with --detail raw"
        fields = [field for field in build_frame_detail(raw_line, sent_request).fields if field.name == "body"]
        values = [
            (leaf.path, leaf.value, leaf.start) for leaf in leaves(frame_detail.fields) if "_tags" not in leaf.path
        ]
        assert values == [
            (leaf.path, leaf.value, None)
            for leaf in leaves(fields)
            if leaf.name != "_tags" and "_tags." not in leaf.path
        ]


def test_summary_line_shows_its_columns() -> None:
    line = request_line(None, api_key=3, api="Metadata", client_id="shop",
                        topics=[TopicEntry("orders", partitions=[0, 2])])  # fmt: skip
    detail = build_frame_detail(line)
    assert detail.frame is None
    assert detail.missing == "the trace has no bodies or raw bytes: record with --detail raw"
    assert detail.find("topics[0].partitions[1]")[-1].value == 2
    assert {"client_id", "api", "size"} <= {field.name for field in detail.fields}
    assert "frame" not in {field.name for field in detail.fields}


def test_detail_explains_why_a_frame_was_not_decoded() -> None:
    line = request_line(None, not_decoded="Metadata v99 is unknown")
    assert build_frame_detail(line).missing == "not decoded: Metadata v99 is unknown"
    invalid_frame = build_frame_detail(request_line(b"\x00\x00"))
    assert invalid_frame.missing == "the trace's bytes here are not a valid frame"


def test_detail_gives_the_kind_text_and_meaning_of_each_field() -> None:
    line = request_line(request("Produce", 9,
                                {"transactional_id": None, "acks": -1, "timeout_ms": 5,
                                "topic_data": [{"name": "orders",
                                "partition_data": [{"index": 3,
                                "records": records.encode([{"records": [{"key": b"k", "value": b"v",
                                                          "headers": [{"key": "h",
                                                          "value": b"x"}]}]}])}]}]}))  # fmt: skip
    detail = build_frame_detail(line)

    def describe(path: str) -> tuple[str, str, str | None]:
        field = detail.find(path)[-1]
        return field.kind, field.text, field.meaning

    assert describe("header.request_api_key") == ("int16", "0", "Produce")
    assert describe("transactional_id") == ("compact nullable string", "null", None)
    assert describe("acks") == ("int16", "-1", "all in-sync replicas")
    assert describe("topic_data") == ("compact array of struct", "1 element", None)
    assert describe("topic_data[0]") == ("struct", 'name "orders"', None)
    data = "topic_data[0].partition_data[0].records"
    assert describe(data)[0] == "compact nullable records"
    assert describe(f"{data}[0]") == ("record batch", "", "1 record, none, CreateTime")
    assert describe(f"{data}[0].crc")[::2] == ("uint32", "valid")
    assert describe(f"{data}[0].records[0]") == ("record", "", "offset 0")
    assert describe(f"{data}[0].records[0].key") == ("varint bytes", '"k" (1 byte)', None)
    assert describe(f"{data}[0].records[0].headers[0].key") == ("varint string", '"h"', None)
    assert describe("_tags") == ("tag buffer", "empty", None)


def test_tagged_field_has_its_tag_and_span() -> None:
    body = {"error_code": 0, "api_keys": [], "throttle_time_ms": 0, "finalized_features_epoch": 7}
    detail = build_frame_detail(response_line(response("ApiVersions", 3, body), 18, 3))
    [*_, field] = detail.find("_tags.finalized_features_epoch")
    assert (field.kind, field.value) == ("tag 1, int64", 7)
    assert detail.frame is not None
    assert field.start is not None
    assert detail.frame[field.start : field.end] == b"\x01\x08" + (7).to_bytes(8, "big")
    assert innermost(detail, field.start) is field


@pytest.mark.parametrize("path", _TRAFFIC[:20], ids=lambda path: path.name)
def test_fields_are_found_by_byte_and_by_path(path: Path) -> None:
    for line, sent_request in frame_lines(path, Detail.RAW):
        detail = build_frame_detail(line, sent_request)
        for leaf in leaves(detail.fields) if detail.frame else ():
            if leaf.path and "_tags." not in leaf.path:
                assert detail.find(leaf.path)[-1].path == leaf.path
            if leaf.start is not None and leaf.start < (leaf.end or 0):
                field = innermost(detail, leaf.start)
                assert field is not None
                assert (field.start, field.end) == (leaf.start, leaf.end)
        assert innermost(detail, line.size) is None
        assert detail.find("no.such[0].field") == []


@pytest.mark.slow
def test_path_of_a_layout_finding_leads_to_a_field() -> None:
    for path in (DATA / "bugs").glob("*--java.pcap.gz"):
        for line, sent_request in frame_lines(path, Detail.RAW):
            detail = build_frame_detail(line, sent_request)
            for finding in detail.findings:
                if (
                    finding.edit is None
                    or finding.span is None
                    or not finding.path
                    or finding.confidence in (None, 0.0)
                ):
                    continue
                chain = detail.find(finding.path)
                assert chain, (path.name, finding.path)
                assert detail.deviation or finding.code[0] != "L", path.name


def test_frame_is_decoded_with_the_layout_named_by_its_finding() -> None:
    """The finding takes precedence over a diagnosis of this frame alone, because it may be based on more frames."""
    frame = response("Heartbeat", 1, {"throttle_time_ms": 0, "error_code": 0})
    edit = {"kind": "field_moved", "field": "throttle_time_ms", "detail": {"from": 0, "to": 1}}
    entry = {"code": "L003", "name": "field-misplaced", "severity": "error", "message": "m", "confidence": 0.9,
             "edit": edit}  # fmt: skip
    finding = msgspec.convert(entry, FindingEntry)
    frame_with_leftover = frame + b"\x00"
    detail = build_frame_detail(response_line(frame_with_leftover, 12, 1, findings=[finding]))
    assert [child.name for child in detail.find("error_code")[0].children] == ["error_code", "throttle_time_ms"]
    assert detail.deviation
    unknown_finding = msgspec.structs.replace(
        finding, edit=msgspec.structs.replace(finding.edit, kind="of_a_later_kproxy")
    )
    assert build_frame_detail(response_line(frame_with_leftover, 12, 1, findings=[unknown_finding])).fields


def test_worst_finding_comes_first() -> None:
    findings = [
        FindingEntry("V003", "no-apiversions", "info", "i"),
        FindingEntry("L001", "trailing-bytes", "error", "e"),
    ]
    assert [
        finding.code
        for finding in build_frame_detail(
            request_line(request("Metadata", 1, {"topics": []}), findings=findings)
        ).findings
    ] == [
        "L001",
        "V003",
    ]


def produce_line(count: int) -> RequestLine:
    data = records.encode([{"records": [{"key": b"k%d" % number, "value": b"v" * 80} for number in range(count)]}])
    return request_line(request("Produce", 7,
                                {"transactional_id": None, "acks": 1, "timeout_ms": 1,
                                "topic_data": [{"name": "t",
                                "partition_data": [{"index": 0, "records": data}]}]}))  # fmt: skip


def test_records_are_not_read_before_they_are_viewed(monkeypatch: pytest.MonkeyPatch) -> None:
    from dissectors.records import batch

    reads = []
    walk_record: Any = batch._walk_record
    monkeypatch.setattr(batch, "_walk_record", lambda *args: reads.append(1) or walk_record(*args))
    detail = build_frame_detail(produce_line(2_000))
    [*_, records_field] = detail.find("topic_data[0].partition_data[0].records[0].records")
    assert (records_field.count, reads) == (2_000, [])
    assert len(records_field.children) == 501
    assert len(reads) == 501
    last = records_field.children[-1]
    assert (last.kind, last.text) == (MORE, "1,500 more")
    chain = detail.find(f"{records_field.path}[1700].key")
    assert chain[-1].value == b"k1700"
    assert [field.kind for field in chain].count(MORE) == 3


def test_record_beyond_the_first_page_is_found_by_its_bytes() -> None:
    detail = build_frame_detail(produce_line(2_000))
    assert detail.frame is not None
    [*_, value] = detail.find("topic_data[0].partition_data[0].records[0].records[1999].value")
    assert value.start is not None
    assert innermost(detail, value.start + 5) is value


def test_secrets_are_redacted() -> None:
    frame = request("SaslAuthenticate", 1, {"auth_bytes": b"\0user\0hunter2"})
    detail = build_frame_detail(request_line(frame))
    assert detail.frame is not None
    assert b"hunter2" not in detail.frame
    assert detail.find("auth_bytes")[-1].value == "(redacted, 13 bytes)"
    withheld = build_frame_detail(request_line(frame[:24] + bytes(len(frame) - 24), body={}))
    assert [field.name for field in withheld.fields] == ["size", "header", "body"]
    assert str(withheld.fields[-1].value).startswith("(redacted")


def test_records_of_the_cluster_metadata_topic_are_redacted() -> None:
    redacted_batches = [
        {"base_offset": 3, "magic": 2, "records": [{"offset": 3, "key": None, "value": "(redacted, 5 bytes)"}]}
    ]
    data = records.encode([{"base_offset": 3, "records": [{"offset": 3, "value": b"topic"}]}])
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 1, "records": data}
    response_body = {"throttle_time_ms": 0, "responses": [{"topic": "__cluster_metadata", "partitions": [partition]}]}
    body = {"responses": [{"partitions": [{"records": redacted_batches}]}]}
    detail = build_frame_detail(response_line(response("Fetch", 4, response_body), 1, 4, body=body))
    assert detail.frame is not None
    assert b"topic" not in detail.frame[detail.frame.index(b"__cluster_metadata") + 18 :]
    path = "responses[0].partitions[0].records"
    assert detail.find(path)[-1].value == f"(redacted, {len(data)} bytes)"
    assert detail.find(f"{path}[0].records[0].value")[-1].value == "(redacted, 5 bytes)"


def view_everything(detail: FrameDetail) -> None:
    """View all fields and records, within the limits of a viewer."""
    budget = 2_000
    pending = list(detail.fields)
    while pending and budget:
        field = pending.pop()
        budget -= 1
        assert isinstance(field.text, str)
        pending += field.children
    for offset in range(0, len(detail.frame or b""), 7):
        innermost(detail, offset)
    for field in record_fields(detail.fields):
        records_of(field, 20)


@pytest.mark.slow
@given(damaged(requests()))
def test_any_damaged_request_can_be_viewed(frame: bytes) -> None:
    view_everything(build_frame_detail(request_line(frame)))


@pytest.mark.slow
@given(
    responses().flatmap(lambda sample: st.tuples(damaged(st.just(sample[0])), st.just(sample[1]), st.just(sample[2])))
)
def test_any_damaged_response_can_be_viewed(frame_and_api: tuple[bytes, int, int]) -> None:
    view_everything(build_frame_detail(response_line(*frame_and_api)))


_BATCHES = records.encode([{"compression": codec,
                          "records": [{"key": b"k", "value": b"v" * 30,
                          "headers": [{"key": "h", "value": None}]}] * 3} for codec in ("none", "gzip",
                          "lz4") ] + [{"magic": magic, "compression": codec,
                          "records": [{"offset": 4, "timestamp": 1, "key": b"k", "value": b"v" * 9}]} for magic in (0,
                          1) for codec in ("none", "gzip")])  # fmt: skip


@pytest.mark.slow
@given(damaged(st.just(_BATCHES)))
def test_any_damaged_record_data_can_be_viewed(data: bytes) -> None:
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 1, "records": data}
    body = {"throttle_time_ms": 0, "responses": [{"topic": "t", "partitions": [partition]}]}
    view_everything(build_frame_detail(response_line(response("Fetch", 4, body), 1, 4)))


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_body_can_be_viewed(value: Any) -> None:
    line = response_line(None, 1, 4, body={"responses": value, "x": value})
    view_everything(build_frame_detail(line))
    partitions = [{"records": value}]
    view_everything(
        build_frame_detail(
            msgspec.structs.replace(line, body={"responses": [{"topic": "t", "partitions": partitions}]})
        )
    )
