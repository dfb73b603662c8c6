"""Filters on fields of records: `value.order.id`, `key` and `header.traceparent`."""

from __future__ import annotations

from typing import Any

import pytest

from kproxy.filters import FilterError, complete, parse


def body(*records: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a Produce request with these records."""
    partition = {"index": 0, "records": [{"base_offset": 0, "records": list(records)}]}
    return {"acks": 1, "topic_data": [{"name": "orders", "partition_data": [partition]}]}


def json_value(data: Any) -> dict[str, Any]:
    return {"format": "json", "data": data}


ORDER = {
    "order": {"id": 17, "price": "12.50", "large": "9007199254740993", "at": "2026-03-01T10:00:00Z"},
    "lines": [{"sku": "a-1", "count": 2.0}, {"sku": "B-2", "count": 0.1}],
    "paid": True, "note": None, "cancelled": False, "tags": ["x", "y z"], "zero": 0, "none": {},
    "card": "(masked)", "format": "A4", "data": {"id": 5},
}  # fmt: skip
PRODUCE: dict[str, Any] = {
    "kind": "request", "api": "Produce",
    "body": body(
        {
            "key": {"format": "text", "data": "k1", "guess": True},
            "value": json_value(ORDER),
            "headers": [
                {"key": "traceparent", "value": {"format": "text", "data": "00-4bf92f-01"}},
                {"key": "app.name", "value": json_value({"id": "shop"})},
                {"key": "empty", "value": None},
            ],
        },
        {"key": {"format": "bytes", "data": b"\xff\x00"}, "value": None, "headers": []},
    ),
}  # fmt: skip
WITHHELD = {"format": "(withheld)", "data": "(17 bytes)"}
#: A frame whose records are base64 bytes or withheld.
UNDECODED: dict[str, Any] = {
    "kind": "request", "api": "Produce",
    "body": body(
        {"key": "azE=", "value": "eyJhIjogMX0=", "headers": [{"key": "traceparent", "value": "MDA="}]},
        {"key": WITHHELD, "value": WITHHELD, "headers": [{"key": "traceparent", "value": WITHHELD}]},
    ),
}  # fmt: skip
FOUND = [
    "value.order.id=17", "value.order.id=17.0", 'value.order.id="17"', "value.order.id>16 and value.order.id<=17",
    "value.order.id in (3, 17)", "value.order.id!=18", "value.order.id not in (1, 2)", "value.order.id~^1",
    "value.order.id=1*", "value.order.price=12.5", "value.order.price>12.4 and value.order.price<12.51",
    "value.order.large=9007199254740993", "value.order.large>9007199254740992", "value.order.at>=2026-03-01",
    "value.order.at=2026-*", "value.lines.sku=B-2", "value.lines.count=2", "value.lines.count=0.1",
    "value.lines.count~'^2$'", "value.lines.sku not in (x, y)", "value.paid=true", "value.paid", "value.note=null",
    "value.cancelled=false", "value.zero", "value.zero=0", "value.*.id=17", "value.**.sku=a-1", "value.**.id=5",
    "value.ord?r.id=17", "value.order", "value.order~2026", "value~a-1", "value.tags='y z'", "value.data.id=5",
    "value.format=A4", "value=null", "key=k1", "key=k*", "key!=k2", "key='/wA='", "key~^k", "header.traceparent~4bf92f",
    "header.app.name=shop", "header.trace*=00-*", "header~shop", "header.empty=null", "value.**=17", "key and value",
    "header.traceparent",
]  # fmt: skip
NOT_FOUND = [
    "value.order.id=170", "value.order.id='17.0'", "value.order.id!=17", "value.order.id=x", "value.order.id<17",
    "value.order.id='1*'", "value.Order.id=17", "value.order.id.x=17", "value.order=18", "value.note",
    "value.cancelled", "value.none", "value.gone",
    "value.lines.sku=b-2", "value.lines.sku!=a-1", "value.order.at>5", "value.paid=1",
    "value.paid>0", "value.order.id>a", "value.card", "value.card!=x", "value.card~masked", "key=K1", "key.id=17",
    "value.order.id=\u0661\u0667",
    "header.app=shop", "header.gone", "header.empty", "value.sku=a-1", "value.order.[a-z]*=17",
]  # fmt: skip


@pytest.mark.parametrize("text", FOUND)
def test_filter_matches_decoded_records(text: str) -> None:
    assert parse(text).matches(PRODUCE)
    assert parse(str(parse(text))) == parse(text)
    assert not parse(text).matches(UNDECODED)
    assert not parse(text).matches({"kind": "open"})


@pytest.mark.parametrize("text", NOT_FOUND)
def test_filter_does_not_match_other_records(text: str) -> None:
    assert not parse(text).matches(PRODUCE)


INVALID = ["value.", "value..id", "header.", "values.id", "value" + ".a" * 51]


@pytest.mark.parametrize("field", INVALID)
def test_invalid_record_fields_are_rejected(field: str) -> None:
    with pytest.raises(FilterError, match="unknown field"):
        parse(f"{field}=1")


def test_operators_are_suggested_for_a_record_field() -> None:
    assert complete("value.order.id ", 15) == ["=", "!=", "<", "<=", ">", ">=", "~", "!~", "in", "not in", "and", "or"]
    assert complete("ke", 2) == ["key"]


@pytest.mark.parametrize(
    "record",
    [
        {"key": None, "value": json_value({}), "headers": [5, {"key": 5, "value": json_value(1)}, {}], "topic": 7},
        {"key": {"format": 1, "data": {"id": []}}, "headers": {"a": json_value(1)}, "value": 5},
    ],
)
def test_filter_matches_nothing_in_a_malformed_record(record: dict[str, Any]) -> None:
    for text in ("header.a*=1", "key.id=1", "value=5", "value.id"):
        assert not parse(text).matches({"body": body(record)})


def test_matching_a_nested_value_takes_linear_time() -> None:
    data: Any = {"end": 1}
    for _ in range(900):
        data = {"a": data, "b": 0}
    line = {"body": body({"key": None, "value": json_value(data)})}
    assert parse("value" + ".**.a" * 24 + ".**.end=1").matches(line)
    assert not parse("value" + ".**.a" * 24 + ".**.gone=1").matches(line)
