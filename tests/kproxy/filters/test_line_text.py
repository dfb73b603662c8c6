"""A filter without a field: a word or quoted text matches the lines that contain it."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.schemas import apis
from kproxy.filters import FilterError, parse
from kproxy.filters.errors import corrected_name
from kproxy.filters.fields import BY_NAME
from kproxy.trace.encoding import ColumnReader, as_mapping
from kproxy.trace.lines import ExcerptEntry, FindingEntry, RequestLine, RewrittenEntry, TopicEntry
from tests.kproxy.filters.test_record_fields import PRODUCE, UNDECODED

#: A line with text in every column.
LINE: dict[str, Any] = as_mapping(
    RequestLine(
        v=1, ts="2031-07-08T12:00:00.250000Z", connection_id="node-1-7", client="10.0.0.5:40000", server="kafka1:9092",
        api="Fetch", api_key=1, api_version=12, correlation_id=4711, client_id="Größe 3", size=2048, offset=1234,
        topics=[TopicEntry("eu.orders-2", None, [815], compression=["zstd"])], group_id="billing",
        findings=[FindingEntry("L003", "field-misplaced", "error", "it is last", hint="move (it)",
                               excerpt=ExcerptEntry(0, "excerpted"))],
        rewritten=[RewrittenEntry("brokers[0].port", "9092", "19092")], note="ask Émile",
    )
) | {"frame": "UVVJRVQ=",
    "body": {"name": "deep", "list": [{"id": "q\"uote", "count": 1010101}], "raw": "AAEC", "none": None}}  # fmt: skip

FOUND = [
    "orders", "ORDERS", "eu.orders-2", "o*s-?", "'.orders-'", "fetch", "10.0.0.5", "kafka1:9092", "größe",
    "'GRÖSSE 3' or größe", "billing", "zstd", "L003", "misplaced", "'it is last'", "'(it)'", "port", "19092", "émile",
    "deep", "'q\\\"uote'", "aaec", "node-1-7", "orders and api=Fetch", "not payments",
    "error_code or deep", "(orders)", "!payments && orders",
]  # fmt: skip
NOT_FOUND = [
    "payments", "'orders-2 '", "'o*s'", "o?s", "2031", "12:00", "4711", "2048", "1234", "815", "1010101", "'request'",
    "topics", "group_id", "'error'", "list", "not orders", "UVVJRVQ", "excerpted",
    "orders and payments", "null", "'\\\\'",
]  # fmt: skip


@pytest.mark.parametrize("text", FOUND)
def test_text_is_found_anywhere_in_a_line(text: str) -> None:
    assert parse(text).matches(LINE)


@pytest.mark.parametrize("text", [text for text in NOT_FOUND if text not in BY_NAME])
def test_numbers_times_and_field_names_are_not_searched(text: str) -> None:
    assert not parse(text).matches(LINE)


IN_RECORDS = ["'k1'", "4bf92f", "traceparent", "12.50", "17", "0.1", "a-1", "'Y Z'", "a4", "'/wA='", "orders"]
NOT_IN_RECORDS = ["'masked'", "'true'", "null", "sku", "json"]


@pytest.mark.parametrize("text", IN_RECORDS)
def test_text_and_numbers_in_decoded_records_are_found(text: str) -> None:
    assert parse(text).matches(PRODUCE)


@pytest.mark.parametrize("text", NOT_IN_RECORDS)
def test_masked_values_and_names_in_records_are_not_searched(text: str) -> None:
    assert not parse(text).matches(PRODUCE)


def test_withheld_records_are_not_searched() -> None:
    value = {"format": "(withheld)", "data": "(5 bytes)"}
    body = {"records": [{"key": None, "value": value, "headers": []}]}
    assert not parse("'5 bytes'").matches({"kind": "request", "body": body})
    assert parse("'AP8='").matches({"kind": "request", "body": {"value": b"\x00\xff"}})
    assert not parse("k1").matches(UNDECODED)


def test_text_search_lists_all_columns_that_it_needs() -> None:
    line = RequestLine(v=1, ts="2031-07-08T12:00:00.250000Z", connection_id="a", client="x:1", server="y:2", size=1,
                       offset=0, topics=[TopicEntry("orders")], body={"deep": "er"})  # fmt: skip
    for text in ("orders", "'er'", "y:2"):
        text_filter = parse(text)
        assert text_filter.searches_text
        assert not text_filter.reads_records
        assert text_filter.matches(ColumnReader(text_filter.columns)(line))
    assert not parse("topic=orders").searches_text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("findngs", "unknown field 'findngs' at column 1: did you mean 'findings'? Quote it to search for the text"),
        ("Topic", "unknown field 'Topic' at column 1: did you mean 'topic'? Quote it to search for the text"),
        (
            "api and calient",
            "unknown field 'calient' at column 9: did you mean 'client'? Quote it to search for the text",
        ),
        ("latecny", "unknown field 'latecny' at column 1: did you mean 'latency'? Quote it to search for the text"),
        ("orders=1", "unknown field 'orders' at column 1: did you mean 'records'?"),
        ("orders in (a)", "unknown field 'orders' at column 1: did you mean 'records'?"),
        ("orders not in (a)", "unknown field 'orders' at column 1: did you mean 'records'?"),
        ("''", "the text to search for is empty at column 1"),
        ("orders eu", "'and' or 'or' is missing at column 8: quote values that contain spaces or operators"),
        ("'orders'=1", "a field is missing at column 1: a term looks like api=Fetch"),
    ],
)
def test_misspelt_field_is_an_error(text: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_common_search_words_are_not_taken_for_misspelt_fields() -> None:
    words = ["orders", "topic1", "topic-1", "group1", "client-7", "order", "payments", "kafka", "10.0.0.1", "shop"]
    assert [word for word in words if corrected_name(word, BY_NAME)] == []
    assert [api.name for api in apis() if corrected_name(api.name, BY_NAME)] == []


@pytest.mark.parametrize("text", ["orders", "'a b'", "'api'", "o*s", "not orders", "api and ('x' or y)"])
def test_printed_text_parses_to_the_same_filter(text: str) -> None:
    assert parse(str(parse(text))) == parse(text)
