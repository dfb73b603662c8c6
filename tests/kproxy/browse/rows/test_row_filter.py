"""A filter matches the rows of the index exactly as it matches their complete lines."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs

from kproxy.browse.rows.exchange import Exchange
from kproxy.browse.rows.row_filter import row_matcher
from kproxy.browse.session import BrowseSession
from kproxy.filters import parse
from kproxy.filters.fields import FIELDS
from kproxy.trace.encoding import as_mapping
from kproxy.trace.lines import Detail, GapLine, HeldEntry, Line, MarkerEntry, RequestLine, ResponseLine, RewrittenEntry
from tests.kproxy.browse.sessions import finding, request, response, session_of, session_of_capture
from tests.kproxy.capture_results import DATA, lines_of

FILTERS = (
    *(field.name for field in FIELDS), "api=Fetch", "error!=0", "error=NONE", "not error", "latency>1ms",
    "kind=request", "client~127", "finding=L*", "severity>=warning and blame=broker", "not topic=orders",
    "direction=response", "bytes>10", "ts>2020-01-01", "not_decoded~x or requests>2", "software~java",
    "orders", "marker=orders", "held=orders", "rewritten=*port",
    "n-1 and not misplaced", "19092",
)  # fmt: skip


@pytest.fixture(scope="module")
def sessions() -> list[BrowseSession]:
    first = request(0, findings=[finding()], not_decoded="x")
    second = request(1, acks=0)
    lines: list[Line] = [
        first, response(first, findings=[finding("error", "L001")]), second, response(request(2)),
        request(3, rewritten=[RewrittenEntry("brokers[0].port", "9092", "19092")],
                markers=[MarkerEntry("orders", 0, 1, 0, committed=True)]),
        response(request(4), held=[HeldEntry("orders", 0, 1, 2)]),
        GapLine(v=1, ts=first.ts, connection_id="n-1", direction="both", bytes=20, reason="x"),
    ]  # fmt: skip
    return [
        session_of(lines),
        session_of_capture(DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"),
        session_of_capture(DATA / "bugs" / "corrid-wrong--librdkafka.pcap.gz"),
    ]


@pytest.mark.parametrize("filter_text", FILTERS)
def test_filter_gives_the_same_result_for_a_row_and_its_exchange(
    filter_text: str, sessions: list[BrowseSession]
) -> None:
    row_filter = parse(filter_text)
    for session in sessions:
        matches = row_matcher(row_filter, session.index, session.source.store)
        for row in range(session.index.end):
            exchange = session.exchange(row)
            assert exchange is not None
            assert matches(row) == row_filter.matches(merged_mapping(exchange)), row


def merged_mapping(exchange: Exchange) -> Mapping[str, Any]:
    """Return all columns of an exchange; response columns override request columns, but findings are combined."""
    request, response = (as_mapping(side) if side else {} for side in (exchange.request, exchange.response))
    findings = request.get("findings", []) + response.get("findings", [])
    event = as_mapping(exchange.event) if exchange.event is not None else {}
    return request | response | ({"findings": findings} if findings else {}) | event


def test_filter_sees_records_of_request_and_response() -> None:
    def body(data: str) -> dict[str, Any]:
        return {"records": [{"key": None, "value": {"format": "text", "data": data}}]}

    request_line = request(0, body=body("asked"))
    session = session_of([request_line, response(request_line, body=body("answered"))])
    for text, expected in (("value=asked", True), ("value=answered", True), ("value=other", False), ("key", False)):
        assert row_matcher(parse(text), session.index, session.source.store)(0) is expected


def test_row_whose_stored_line_is_invalid_matches_no_filter() -> None:
    session = session_of([request(0)])
    session.index.sizes[0][0] = 10
    assert not row_matcher(parse("not error"), session.index, session.source.store)(0)


@pytest.mark.parametrize("missing_column", ["frame", "body"])
def test_text_is_found_in_the_bytes_of_frames(missing_column: str) -> None:
    lines = lines_of(DATA / "pcap" / "kcat-4.3.1.pcap.gz", detail=Detail.RAW)
    frames = [line for line in itertools.islice(lines, 60) if isinstance(line, RequestLine | ResponseLine)]
    session = session_of([structs.replace(frame, **{missing_column: None}) for frame in frames])
    matches = row_matcher(parse("api=Produce and First"), session.index, session.source.store)
    matching_rows = [row for row in range(session.index.end) if matches(row)]
    assert len(matching_rows) == (missing_column == "body")  # bodies have records as base64
