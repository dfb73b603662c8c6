from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.filters import parse
from kproxy.trace.encoding import as_mapping
from kproxy.trace.lines import CloseLine, ErrorEntry, FindingEntry, OpenLine, ResponseLine, TopicEntry

FETCH: dict[str, Any] = as_mapping(
    ResponseLine(
        v=1,
        ts="2025-06-30T12:00:00.250000Z",
        connection_id="node-1-7",
        client="10.0.0.5:40000",
        server="10.0.0.1:9092",
        api="Fetch",
        api_key=1,
        api_version=12,
        correlation_id=0,
        client_id="consumer-1",
        size=2048,
        offset=0,
        topics=[
            TopicEntry("orders", None, [0, 3], 1500, 2, 4, ["none", "zstd"], [900, 600], 12, [7, None], [61_000, None]),
            TopicEntry("Returns", None, [1], 0, 0, 0, [], [0], 0),
        ],
        group_id="billing",
        latency_us=60_000,
        request_size=80,
        errors=[ErrorEntry("responses[0].partitions[1].error_code", 6, "NOT_LEADER_OR_FOLLOWER")],
        throttle_time_ms=0,
        findings=[
            FindingEntry("L003", "field-misplaced", "error", "throttle_time_ms is last", blame="broker"),
            FindingEntry("M001", "large-frame", "info", "more than usual"),
        ],
    )
)
HEARTBEAT = {"v": 1, "kind": "response", "api": "Heartbeat", "api_key": 12, "latency_us": 900, "group_id": "billing"}
REQUEST = {"v": 1, "kind": "request", "api": "Produce", "api_key": 0, "acks": -1, "client_id": None}
UNDECODED = {"v": 1, "kind": "response", "api": "Fetch", "not_decoded": "version 99 is not known"}
GAP = {"v": 1, "kind": "gap", "direction": "response", "bytes": 4096, "reason": "queue full"}
FINDING = {"v": 1, "kind": "finding", "code": "C002", "name": "never-answered", "severity": "warning", "message": "m"}
OPEN = as_mapping(OpenLine(v=1, ts="2025-06-30T12:00:00.000000Z", connection_id="a", client="x:1", server="y:2"))
CLOSE = as_mapping(CloseLine(v=1, ts="2025-06-30T12:00:00.000000Z", connection_id="a", client="x:1", server="y:2"))


@pytest.mark.parametrize(
    "text",
    [
        "api=Fetch and latency>50ms and topic~ord",
        "api=fetch",
        "api==FETCH",
        "api='Fetch'",
        "api=Fe*",
        "api in (Heartbeat, Fetch)",
        "api not in (Heartbeat, Produce)",
        "api~fetch",
        "api_key=1 and version>=12 and version<13 and correlation=0",
        "latency=60ms and latency=0.06s and latency=60000us and latency_us=60000 and latency<1m and latency>=60000",
        "size=2KiB and size=2048 and size=2048B and size>2KB and size<1MiB and size<=0.002048MB",
        "throttle=0ms and throttle<1s",
        "topic=orders",
        "topic=Returns",
        "topic=ord*",
        "topic=??ders",
        "topic in (other, orders)",
        "topic!=other",
        "topic!~x",
        "topic not in (a, b)",
        "partition=3 and partition>2 and partition!=2",
        "records=2 and bytes>1KB",
        "lag and lag=12 and lag=0 and lag>10",
        "age and age>1m and age=61s",
        "base_offset and base_offset=7 and base_offset<8",
        "batches=4 and batches>3",
        "compression=zstd and compression=ZSTD and compression=z* and compression!=lz4 and compression in (gzip, none)",
        "compression='unknown(5)' or compression",
        "error",
        "error!=0",
        "error!=NONE",
        "error=6",
        "error=NOT_LEADER_OR_FOLLOWER",
        "error=not_leader*",
        "error in (3, 6)",
        "error~LEADER",
        "error>0",
        "finding=L*",
        "finding=l003",
        "finding=field-misplaced",
        "finding!=C001",
        "severity=error",
        "severity>=warning",
        "severity<error",
        "blame=broker",
        "message~last$",
        'client_id="consumer-1"',
        "client=consumer-? and client=10.0.0.*",
        "group=billing and conn=node-1-7",
        "ts>=2025-06-30 and ts<2025-07-01 and ts>2025-06-30T12:00 and ts=2025-06-30T12:00:00.25Z and ts=2025-06-*",
        "ts='2025-06-30 12:00:00.250000'",
        "kind=response and direction=response",
        "correlation_id",
        "partition and topic and records and findings",
        "not throttle",
        "not (api=Produce or api=Heartbeat) && !api_key=3",
        "api=Produce || api=Fetch and api=Fetch",
    ],
)
def test_filter_matches_a_fetch_response(text: str) -> None:
    assert parse(text).matches(FETCH)


@pytest.mark.parametrize(
    "text",
    [
        "api=Fetch and latency>60ms",
        "api='fetch*'",
        "api!=Fetch",
        "api!~etc",
        "not api in (Heartbeat, Fetch)",
        "topic=ORDERS",
        "topic='ord*'",
        "topic=order",
        "topic!=orders",
        "topic!~ord",
        "topic not in (x, Returns)",
        "error=0",
        "error=NONE",
        "error!=6",
        "error!=NOT_LEADER_OR_FOLLOWER",
        "error=7",
        "error>6",
        "finding!=L003",
        "finding='L*'",
        "severity=warning",
        "blame!=broker",
        "client!=consumer-1",
        "acks=1",
        "acks!=1",
        "member_id!=x",
        "listener!~x",
        "throttle",
        "unanswered",
        "unanswered=0",
        "tls",
        "tls=false",
        "not_decoded",
        "lag>12",
        "age>62s",
        "base_offset>7",
        "compression!=zstd",
        "generation!=1",
        "software!=x",
    ],
)
def test_filter_does_not_match_a_fetch_response(text: str) -> None:
    assert not parse(text).matches(FETCH)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("error=0", [HEARTBEAT]),
        ("error!=0", [FETCH]),
        ("error!=NOT_LEADER_OR_FOLLOWER", [HEARTBEAT]),
        ("error", [FETCH]),
        ("not error", [HEARTBEAT, REQUEST, UNDECODED, GAP, FINDING, OPEN, CLOSE]),
        ("direction=request", [REQUEST]),
        ("direction=response", [FETCH, HEARTBEAT, UNDECODED, GAP]),
        ("bytes>=4KiB", [GAP]),
        ("finding=C*", [FINDING]),
        ("finding=never-answered and severity=warning", [FINDING]),
        ("api_key=0", [REQUEST]),
        ("acks=-1", [REQUEST]),
        ("client_id!=x", [FETCH]),
        ("not client_id=x", [FETCH, HEARTBEAT, REQUEST, UNDECODED, GAP, FINDING, OPEN, CLOSE]),
        ("tls=false and not tls and not midstream", [OPEN]),
        ("unanswered=0 and request_bytes<1KB", [CLOSE]),
        ("frames=0", [GAP]),
        ("not_decoded~'version \\d+'", [UNDECODED]),
        ("topic!=a", [FETCH]),
        ("group=b*g and latency<1ms", [HEARTBEAT]),
    ],
)
def test_absent_column_does_not_match_any_comparison(text: str, expected: list[dict[str, Any]]) -> None:
    lines = [FETCH, HEARTBEAT, REQUEST, UNDECODED, GAP, FINDING, OPEN, CLOSE]
    assert [line for line in lines if parse(text).matches(line)] == expected


def test_field_without_a_comparison_matches_true_flags_and_nonzero_counts() -> None:
    assert parse("tls and tls=true and tls!=false").matches(OPEN | {"tls": True})
    assert parse("unanswered and unanswered>1").matches(CLOSE | {"unanswered": 2})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("software=librdkafka", True),
        ("software='librdkafka 2.16.0' and software=lib*2.1?.0 and software~'kafka 2'", True),
        ("software_name=librdkafka and software_version=2.16.0", True),
        ("software=2.16.0", False),
        ("software=Librdkafka", False),
        ("generation=-1 and generation_id<0 and generation", True),
        ("generation>0", False),
    ],
)
def test_software_matches_its_name_with_or_without_the_version(text: str, expected: bool) -> None:
    line = {"software_name": "librdkafka", "software_version": "2.16.0", "generation_id": -1}
    assert parse(text).matches(line) is expected


def test_software_without_a_version_matches_its_name() -> None:
    assert parse("software=franz-go and not software='franz-go *'").matches({"software_name": "franz-go"})


def test_text_that_is_not_utf8_is_compared() -> None:
    assert parse("client_id~^con.umer$ and client_id=con*").matches({"client_id": "con\udcffumer"})


TERMS = st.sampled_from(
    [
        "api=Fetch",
        "latency>1ms",
        "topic~r",
        "error=0",
        "finding",
        "group=billing",
        "acks=-1",
        "partition<2",
        "bytes>1KiB",
    ]
)
LINES = st.sampled_from([FETCH, HEARTBEAT, REQUEST, UNDECODED, GAP, FINDING])


@given(terms=st.lists(TERMS, min_size=1, max_size=5), line=LINES)
def test_terms_can_be_combined_by_and_or_and_not(terms: list[str], line: dict[str, Any]) -> None:
    results = [parse(term).matches(line) for term in terms]
    assert parse(" and ".join(terms)).matches(line) == all(results)
    assert parse(" or ".join(terms)).matches(line) == any(results)
    assert parse(f"not ({' or '.join(terms)})").matches(line) == (not any(results))


@given(first=TERMS, second=TERMS, third=TERMS, line=LINES)
def test_not_binds_tighter_than_and_which_binds_tighter_than_or(
    first: str, second: str, third: str, line: dict[str, Any]
) -> None:
    a, b, c = (parse(term).matches(line) for term in (first, second, third))
    assert parse(f"{first} or {second} and not {third}").matches(line) == (a or (b and not c))
    assert parse(f"not {first} and {second} or {third}").matches(line) == ((not a and b) or c)


def test_filter_lists_the_columns_that_it_reads() -> None:
    line_filter = parse("api=Fetch and (latency>50ms or not topic~ord) and partition=1")
    assert line_filter.columns == {"api", "latency_us", "topics"}
    assert parse("error=0 or client=x").columns == {"errors", "kind", "not_decoded", "client", "client_id"}
