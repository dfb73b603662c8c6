"""A filter asked of rows sees the same as one that is given all of their lines."""

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
    asked = request(0, findings=[finding()], not_decoded="x")
    other = request(1, acks=0)
    lines: list[Line] = [
        asked, response(asked, findings=[finding("error", "L001")]), other, response(request(2)),
        request(3, rewritten=[RewrittenEntry("brokers[0].port", "9092", "19092")],
                markers=[MarkerEntry("orders", 0, 1, 0, committed=True)]),
        response(request(4), held=[HeldEntry("orders", 0, 1, 2)]),
        GapLine(v=1, ts=asked.ts, connection_id="n-1", direction="both", bytes=20, reason="x"),
    ]  # fmt: skip
    return [
        session_of(lines),
        session_of_capture(DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"),
        session_of_capture(DATA / "bugs" / "corrid-wrong--librdkafka.pcap.gz"),
    ]


@pytest.mark.parametrize("text", FILTERS)
def test_it_matches_what_the_whole_exchange_matches(text: str, sessions: list[BrowseSession]) -> None:
    chosen = parse(text)
    for session in sessions:
        asked = row_matcher(chosen, session.index, session.source.store)
        for row in range(session.index.end):
            exchange = session.exchange(row)
            assert exchange is not None
            assert asked(row) == chosen.matches(whole(exchange)), row


def whole(exchange: Exchange) -> Mapping[str, Any]:
    """All there is of an exchange: of the response, where it has none of the request; the findings of both."""
    request, response = (as_mapping(each) if each else {} for each in (exchange.request, exchange.response))
    findings = request.get("findings", []) + response.get("findings", [])
    event = as_mapping(exchange.event) if exchange.event is not None else {}
    return request | response | ({"findings": findings} if findings else {}) | event


def test_records_of_both_sides_count() -> None:
    def body(data: str) -> dict[str, Any]:
        return {"records": [{"key": None, "value": {"format": "text", "data": data}}]}

    asked = request(0, body=body("asked"))
    session = session_of([asked, response(asked, body=body("answered"))])
    for text, fits in (("value=asked", True), ("value=answered", True), ("value=other", False), ("key", False)):
        assert row_matcher(parse(text), session.index, session.source.store)(0) is fits


def test_a_row_whose_lines_are_not_what_they_were_matches_nothing() -> None:
    session = session_of([request(0)])
    session.index.sizes[0][0] = 10
    assert not row_matcher(parse("not error"), session.index, session.source.store)(0)


@pytest.mark.parametrize("without", ["frame", "body"])
def test_text_is_found_in_the_bytes_of_frames_as_the_details_show_it(without: str) -> None:
    lines = lines_of(DATA / "pcap" / "kcat-4.3.1.pcap.gz", detail=Detail.RAW)
    frames = [each for each in itertools.islice(lines, 60) if isinstance(each, RequestLine | ResponseLine)]
    session = session_of([structs.replace(frame, **{without: None}) for frame in frames])
    chosen = row_matcher(parse("api=Produce and First"), session.index, session.source.store)
    found = [row for row in range(session.index.end) if chosen(row)]
    assert len(found) == (without == "body")  # bodies have records as base64
