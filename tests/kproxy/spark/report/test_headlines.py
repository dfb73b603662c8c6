from __future__ import annotations

from typing import Any

import pytest

from kproxy.filters import parse
from kproxy.spark.report.headlines import Headline, headlines
from kproxy.spark.report.statements import Stage
from kproxy.spark.report.tables import JobTable
from kproxy.spark.routine_errors import is_routine
from tests.kproxy.spark.report.pages import BEGIN_US, figures, listed

DAY_US = 86_400_000_000


def headline_texts(*tables: JobTable) -> list[tuple[str, str]]:
    return [(headline.level, headline.text) for headline in headlines(figures(*tables))]


def test_absence_of_problems_is_a_headline() -> None:
    assert headlines(figures()) == [Headline("info", "No problems found.", "latency", "No problems found")]


def test_clients_are_counted_by_the_release_that_refuses_them() -> None:
    def client(name: str, **columns: Any) -> dict[str, Any]:
        return {"client": name, "verdict": "refused", "refused_from": "4.0", **columns}

    table = listed(
        "clients",
        *map(client, "abcd"),
        client("a", software_name="sarama"),  # the same client id with different software counts as one client
        client("e", refused_from="4.1"),
        client("f", verdict="works", refused_from=None),
        client("a", api="Fetch", api_version=3),
    )
    assert headline_texts(table) == [
        ("warning", "4 clients will be refused by Kafka 4.0: a, b, c and 1 more; active 2026-11-21 05:00-06:00 UTC."),
        ("warning", "1 client will be refused by Kafka 4.1: e; active 2026-11-21 05:00-06:00 UTC."),
    ]


def stall(day: int, hour: int = 0, **columns: Any) -> dict[str, Any]:
    since = BEGIN_US + day * DAY_US + hour * 3_600_000_000
    return {"group_id": "g", "severity": "error", "since": since, "duration_us": 30_000_000, "blamed": ["b"], **columns}


def test_stalls_at_the_same_hour_of_three_days_are_reported_as_daily() -> None:
    assert headline_texts(listed("group-stalls", stall(0), stall(1, duration_us=40_000_000), stall(2))) == [
        (
            "error",
            "Group g stalls every day at 05:00 UTC (3 days), for up to 40.0 s, waiting for b, "
            "2026-11-21 05:00 to 2026-11-23 05:00 UTC.",
        )
    ]
    assert headline_texts(listed("group-stalls", stall(0), stall(0), stall(1), stall(2, hour=1))) == [
        ("error", "Group g stalls 4 times, for up to 30.0 s, waiting for b, 2026-11-21 05:00 to 2026-11-23 06:00 UTC.")
    ]


def test_short_and_informational_stalls_are_omitted() -> None:
    table = listed("group-stalls", stall(0, duration_us=4_000_000), stall(0, severity="info"))
    assert headline_texts(table)[0][1] == "No problems found."


def test_findings_are_sorted_by_severity_unless_covered_by_other_tables() -> None:
    findings_table = listed(
        "findings",
        {"severity": "warning", "code": "S001", "name": "address-leak", "client": "a", "findings": 1},
        {"severity": "error", "code": "L005", "name": "newer", "client": None, "findings": 2},
        {"severity": "error", "code": "L005", "name": "newer", "client": "b", "findings": 3, "message": "it is new"},
        {"severity": "warning", "code": "S034", "name": "blind-retry-duplicates", "client": "a", "findings": 1},
        {"severity": "info", "code": "L014", "name": "unknown-tag", "client": "a", "findings": 9},
    )
    assert headline_texts(findings_table) == [
        (
            "error",
            "It is new; 5 occurrences, an unknown client, b at an unknown broker (L005), 2026-11-21 05:00-06:00 UTC.",
        ),
        ("warning", "Address leak; 1 occurrence, a at an unknown broker (S001), 2026-11-21 05:00-06:00 UTC."),
    ]


def test_failures_that_affect_most_clients_come_first() -> None:
    def finding(code: str, severity: str, *clients: str, times: int = 1) -> list[dict[str, Any]]:
        row = {"severity": severity, "code": code, "name": f"name-of-{code}", "findings": times}
        return [row | {"client": client} for client in clients]

    rows = [
        *finding("L001", "error", "a"),
        *finding("L002", "error", "a", times=9),
        *finding("L003", "error", "a", "b"),
    ]
    upgrade = listed("clients", {"client": "a", "verdict": "refused", "refused_from": "4.0"})
    times = {"by": "api", "first_at": BEGIN_US, "last_at": BEGIN_US}
    errors = listed(
        "errors",
        times | {"value": "Produce", "error": "NOT_ENOUGH_REPLICAS", "responses": 26, "share": 1.0},
        times | {"value": "Fetch", "error": "OFFSET_OUT_OF_RANGE", "responses": 3, "share": 0.01},
    )
    sorted_headlines = headlines(figures(upgrade, listed("findings", *rows), errors))
    assert [(headline.stage, headline.title) for headline in sorted_headlines] == [
        (Stage.FAILS, "Name of L003"),
        (Stage.FAILS, "Produce fails"),
        (Stage.FAILS, "Name of L002"),
        (Stage.FAILS, "Name of L001"),
        (Stage.DEGRADES, "Fetch has errors"),
        (Stage.WILL_BREAK, "Kafka 4.0 will refuse clients"),
    ]
    assert (sorted_headlines[0].rows, sorted_headlines[0].filter) == ({"code": "L003"}, "finding=L003")
    assert sorted_headlines[1].filter == "api=Produce and error=NOT_ENOUGH_REPLICAS"
    for headline in sorted_headlines:
        assert not headline.filter or parse(headline.filter)


def test_error_explained_by_a_finding_has_one_headline() -> None:
    message = "refused with NOT_NOW"
    finding = {"severity": "error", "code": "E002", "name": "refused", "message": message, "findings": 1}
    errors = {"by": "api", "value": "Produce", "error": "NOT_NOW", "responses": 26, "share": 1.0} | {
        "first_at": BEGIN_US, "last_at": BEGIN_US,
    }  # fmt: skip
    assert [
        headline.about for headline in headlines(figures(listed("findings", finding), listed("errors", errors)))
    ] == ["findings"]


def test_routine_errors_of_groups_are_omitted() -> None:
    def error(name: str, share: float) -> dict[str, Any]:
        return {"by": "api", "value": "Produce", "error": name, "responses": 3, "share": share, "first_at": BEGIN_US,
                "last_at": BEGIN_US + 1_000_000}  # fmt: skip

    table = listed(
        "errors",
        error("NOT_LEADER_OR_FOLLOWER", 0.015),
        error("REQUEST_TIMED_OUT", 0.0001),
        error("MEMBER_ID_REQUIRED", 0.5),
        {"by": "topic", "value": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "share": 0.1},
    )
    assert headline_texts(table) == [
        (
            "info",
            "Produce got NOT_LEADER_OR_FOLLOWER about orders 3 times (1.50% of its responses), 2026-11-21 05:00 UTC.",
        )
    ]


def test_burst_of_errors_is_reported_whatever_its_share() -> None:
    def errors(name: str, count: int, seconds: int) -> dict[str, Any]:
        return {"by": "api", "value": "Produce", "error": name, "responses": count, "share": 0.0001,
                "first_at": BEGIN_US, "last_at": BEGIN_US + seconds * 1_000_000}  # fmt: skip

    [(_, text)] = headline_texts(listed("errors", errors("A", 20, 20), errors("B", 20, 30), errors("C", 9, 1)))
    assert text.startswith("Produce got A 20 times (0.01% of its responses), 2026-11-21 05:00 UTC.")


def test_hot_partitions_and_throttled_clients_are_reported() -> None:
    hot_partitions = listed(
        "partitions", {"topic": "t", "partition": 5, "written_share": 0.9, "written_skew": 5.4, "read_skew": 1.0}
    )
    throttled_clients = listed(
        "throttling",
        {"client": "a", "broker": "b:1", "since": None, "throttled": 4, "total_throttle_us": 2_000_000},
        {"client": "a", "broker": "b:1", "since": BEGIN_US, "throttled": 4, "total_throttle_us": 2_000_000},
    )
    assert headline_texts(hot_partitions, throttled_clients) == [
        ("info", "a was throttled 4 times by b:1, for 2.0 s in all, 2026-11-21 05:00-06:00 UTC."),
        (
            "info",
            "Partition 5 of t receives 90% of the topic's writes, 5.4x its even share, 2026-11-21 05:00-06:00 UTC.",
        ),
    ]


def anomaly(by: str, value: str | None, factor: float, hour: int = 8, **columns: Any) -> dict[str, Any]:
    row = {
        "by": by, "api": "Produce", "value": value, "since": BEGIN_US + hour * 3_600_000_000, "measure": "p99",
        "actual": 10_000 * factor, "usual": 10_000, "sentence": f"p99 is {10 * factor:.1f} ms, usually 10.0 ms",
    }  # fmt: skip
    return row | columns


def test_slow_broker_is_reported_once_without_its_clients() -> None:
    anomalies = [
        anomaly("client", "a", 33, api="OffsetCommit"),
        anomaly("broker", "b:1", 26),
        anomaly("broker", "b:1", 24, api="OffsetCommit"),
        anomaly("client", "a", 21),
        anomaly("client", "c", 26),
        anomaly("api", None, 20),
    ]
    broker_headline = ("warning", "Broker b:1 was about 25x slower, 2026-11-21 13:00-14:00 UTC.")
    assert headline_texts(listed("anomalies", *anomalies)) == [broker_headline]
    slow_client = anomaly("client", "d", 90)  # much slower than the slowness of its broker explains
    assert headline_texts(listed("anomalies", slow_client, *anomalies)) == [
        ("warning", "Produce of d: p99 is 900.0 ms, usually 10.0 ms, 2026-11-21 13:00-14:00 UTC."),
        broker_headline,
    ]
    # No client has enough responses.
    assert headline_texts(listed("anomalies", anomaly("broker", "b:1", 25))) == [broker_headline]
    longer_anomalies = [*anomalies, *({**row, "since": row["since"] + 3_600_000_000} for row in anomalies)]
    assert headline_texts(listed("anomalies", *longer_anomalies)) == [
        (broker_headline[0], broker_headline[1].replace("14:00", "15:00"))
    ]


def test_slow_client_is_reported_with_its_broker() -> None:
    rows = [anomaly("client", "a", 9), anomaly("broker", "b:1", 8), anomaly("api", None, 7)]
    assert headline_texts(listed("anomalies", *rows)) == [
        ("warning", "Produce of a at b:1: p99 is 70.0 ms, usually 10.0 ms, 2026-11-21 13:00-14:00 UTC.")
    ]


def test_unusual_errors_are_reported_once_and_rates_omitted() -> None:
    rows = [
        anomaly("client", "a", 9, measure="errors", sentence="errors in 9.00 % of responses, usually 1.00 % (9.0x)"),
        anomaly("api", None, 9, measure="errors", sentence="errors in 2.00 % of responses, usually 1.00 % (2.0x)"),
        anomaly("api", None, 9, measure="rate"),
    ]
    assert headline_texts(listed("anomalies", *rows)) == [
        ("warning", "Produce of a: errors in 2.00 % of responses, usually 1.00 % (2.0x), "
         "2026-11-21 13:00-14:00 UTC.")
    ]  # fmt: skip


def test_current_problems_come_before_upgrades() -> None:
    refused_clients = listed("clients", {"client": "a", "verdict": "refused", "refused_from": "4.0"})
    throttled_clients = listed(
        "throttling", {"client": "a", "broker": "b:1", "since": None, "throttled": 4, "total_throttle_us": 2_000_000}
    )
    assert [text[:9] for _, text in headline_texts(refused_clients, throttled_clients)] == ["a was thr", "1 client "]


@pytest.mark.parametrize(
    ("api", "error", "expected"),
    [
        ("JoinGroup", "MEMBER_ID_REQUIRED", True),
        ("Heartbeat", "REBALANCE_IN_PROGRESS", True),
        ("ApiVersions", "UNSUPPORTED_VERSION", True),
        ("Fetch", "UNSUPPORTED_VERSION", False),
        ("Heartbeat", "NOT_COORDINATOR", False),
        (None, "NOT_COORDINATOR", False),
    ],
)
def test_is_routine_depends_on_api_and_error(api: str | None, error: str, expected: bool) -> None:
    assert is_routine(api, error) == expected
