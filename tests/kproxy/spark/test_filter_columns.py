"""A filter converted to a column selects the same lines as the filter itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from kproxy.cli.analyze import engines
from kproxy.filters import FilterError, parse
from kproxy.filters.fields import FIELDS, FilterField, Kind
from kproxy.spark.filter_columns import filter_condition
from kproxy.trace.encoding import as_mapping
from tests.kproxy.filters import test_line_text, test_record_fields
from tests.kproxy.spark.conftest import ENGINE
from tests.kproxy.spark.files import line_of
from tests.kproxy.spark.sample_lines import request, table

RECORD_FILTERS = (
    *test_record_fields.FOUND, *test_record_fields.NOT_FOUND, *test_line_text.IN_RECORDS,
    *test_line_text.NOT_IN_RECORDS,
)  # fmt: skip
ORDERED = (Kind.NUMBER, Kind.COUNT, Kind.DURATION, Kind.SIZE, Kind.TIME, Kind.SEVERITY)
HANDWRITTEN_FILTERS = [
    "api=Fetch and error!=0", "not api", "kind=response and not error", "error=NONE", "error!=NONE", "error",
    "error=35", "error~UNSUPPORTED", "error in (3, 35)", "latency>=1ms", "latency<999us", "size>1KB", "acks=-1", "acks",
    "tls", "not tls", "tls=false", "midstream!=true", "client=10.*", "client~'^10[.]'", "client!=shop", "client_id=''",
    "topic=*o*", "topic~'^o.*s$'", "not topic", "partition=0", "partition!=0", "partition>0", "bytes", "bytes=0",
    "records<2", "batches>=1", "compression=none", "compression!=none", "lag", "lag=0", "age>1ms", "base_offset>=1",
    "age", "software~kafka", "software",
    "finding=L*", "finding~'^(L00[1-5]|V0)'", "finding in (L003, V011)", "finding!=L003", "severity>=warning",
    "severity=error", "severity!=info", "blame=broker", "message~version", "hint", "expected~bytes", "got", "marked",
    "ts>=2026-01-01T00:00:00.01", "ts=2026-01-01*", "ts~'00:00:0[0-3]'", "ts<2025-01-01", "request_ts>2026-01-01",
    "direction=request", "direction", "kind in (open, close)", "throttle>0", "throttle", "correlation=1", "offset>100",
    "generation>=0", "group~.", "member", "reason~.", "note", "not_decoded", "unanswered", "unanswered=0", "requests>3",
    "api_version>=3 and (api=Metadata or api=Fetch) and not (finding or error!=0)", "connection~'-[02468]$'",
]  # fmt: skip


def _filters(lines: list[dict[str, Any]]) -> Iterator[str]:
    """Yield filters for every field and each of its operators, with values that occur (or nearly occur) in a line."""
    yield from HANDWRITTEN_FILTERS
    for field in FIELDS:
        yield field.name
        for value in _values(field, lines):
            quoted = "'" + value.replace("'", "") + "'"
            for sign in ("=", "!=", *(("<", "<=", ">", ">=") if field.kind in ORDERED else ())):
                yield f"{field.name} {sign} {value if field.kind in ORDERED or field.closed else quoted}"


def _values(field: FilterField, lines: list[dict[str, Any]]) -> list[str]:
    values = {}
    for line in lines:
        value = field.read(line)
        for element in value if field.many else [value]:
            if element is not None:
                values[str(element).lower() if field.kind is Kind.FLAG else str(element)] = None
    sorted_values = sorted(values)
    return [*sorted_values[len(sorted_values) // 2 :][:1], *map(str, list(field.known())[-1:])]


def _parsable(texts: Iterator[str]) -> Iterator[str]:
    for text in texts:
        try:
            parse(text)
        except FilterError:
            assert text not in HANDWRITTEN_FILTERS
            continue
        yield text


def test_column_filters_match_the_filters_for_captures(captured: DataFrame) -> None:
    rows = captured.where("corrupt is null").select(*captured.columns[:-5])
    lines = [line_of(row) for row in rows.collect()]
    texts = list(_parsable(iter(dict.fromkeys(_filters(lines)))))
    if ENGINE == "embedded":  # this engine runs no Python
        texts = [text for text in texts if not engines._spark_only_part(text)]
    assert len(texts) > 200
    discriminating_filters = 0
    for start in range(0, len(texts), 80):
        chunk = texts[start : start + 80]
        conditions = (filter_condition(parse(text)).alias(str(index)) for index, text in enumerate(chunk))
        results = rows.select(*rows.columns, *conditions).collect()
        lines = [line_of(Row(**{name: row[name] for name in rows.columns})) for row in results]  # in no certain order
        for index, text in enumerate(chunk):
            expected = [parse(text).matches(line) for line in lines]
            assert [row[str(index)] for row in results] == expected, text
            discriminating_filters += 0 < sum(expected) < len(lines)
    assert discriminating_filters > 100  # most filters match some lines, but not all


PATTERNS = [
    "", "a", "A.c", "^ab", "b$", "a|b", "(a|b)c", "(?:ab)?c", "[a-c]+", "[^a]", r"\d", r"\D", r"\w+", r"\W", r"\s",
    r"\S", r"\.", "a{2}", "a{1,2}b", "x*y?", "é", "ß", "[à-ü]", "İ", "ſ", "k", "Σ", ".", "(?i)AB", "\n", "^$",
]  # fmt: skip
TEXTS = [
    "", "a", "ab", "abc", "AbC", "aab", "b", "ac", "a.c", "a\nc", "x\n", "\n", "1", "٣", "_", " ", "\u00a0", "é", "É",
    "ss", "ß", "ẞ", "I", "i", "İ", "ı", "s", "ſ", "S", "k", "\u212a", "σ", "ς", "Σ", "\U0001f600", "\u2028", "à",
    "\r\n", "\x85",
]  # fmt: skip


@pytest.mark.parametrize("field", ["group_id", "not_decoded"])  # a case-sensitive field and a case-insensitive one
def test_patterns_match_as_in_python(spark: SparkSession, field: str) -> None:
    rows = spark.createDataFrame([(text,) for text in TEXTS], f"{field} string")
    filters = [parse(f'{field}~"{pattern}"') for pattern in PATTERNS]
    results = rows.select(
        *(filter_condition(line_filter).alias(str(index)) for index, line_filter in enumerate(filters))
    ).collect()
    for index, pattern in enumerate(PATTERNS):
        expected = [filters[index].matches({field: text}) for text in TEXTS]
        assert [row[index] for row in results] == expected, pattern


def test_patterns_with_catastrophic_backtracking_are_rejected(spark: SparkSession) -> None:
    assert spark is not None
    for pattern in ("(a+)+", "(a|b)*c", "((a?){2}){9}"):
        with pytest.raises(FilterError, match="invalid pattern for Spark"):
            filter_condition(parse(f"topic~'{pattern}'"))
    with pytest.raises(FilterError, match="not a time"):
        filter_condition(parse("ts>2026-02-31"))


@pytest.mark.skipif(ENGINE == "embedded", reason="runs Python in the engine")
def test_text_filters_match_as_in_python(spark: SparkSession, captured: DataFrame) -> None:
    rows = captured.where("corrupt is null").select(*captured.columns[:-5])
    lines = [line_of(row) for row in rows.collect()]
    texts = ["metadata", "10.0.0", "topics", "app", "UNSUPPORTED", "a", "L0*", "not Fetch", "16-", "'client'"]
    filters = [*map(parse, texts)]
    results = rows.select(
        *(filter_condition(line_filter).alias(str(index)) for index, line_filter in enumerate(filters))
    ).collect()
    for index, line_filter in enumerate(filters):
        assert [row[index] for row in results] == [line_filter.matches(line) for line in lines], line_filter


@pytest.mark.skipif(ENGINE == "embedded", reason="runs Python in the engine")
def test_record_filters_match_as_in_python(spark: SparkSession) -> None:
    lines = [
        request("Produce", body=test_record_fields.PRODUCE["body"]),
        request("Produce", body=test_record_fields.UNDECODED["body"]),
        request("Fetch"),
    ]
    filters = [parse(text) for text in (*RECORD_FILTERS, "not key=k1")]
    conditions = [filter_condition(line_filter).alias(str(index)) for index, line_filter in enumerate(filters)]
    rows = table(spark, *lines).select(*conditions).collect()
    for index, line_filter in enumerate(filters):
        assert [row[index] for row in rows] == [line_filter.matches(as_mapping(line)) for line in lines], line_filter
