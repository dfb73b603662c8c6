from __future__ import annotations

from typing import Any

from kproxy.spark.report.headlines import Headline, headlines
from kproxy.spark.report.listed import Listed
from tests.kproxy.spark.report.pages import BEGIN_US, figures, listed

DAY_US = 86_400_000_000


def told(*tables: Listed) -> list[tuple[str, str]]:
    return [(each.level, each.text) for each in headlines(figures(*tables))]


def test_nothing() -> None:
    assert headlines(figures()) == [Headline("info", "Nothing stands out.", "latency")]


def test_clients_are_counted_by_the_release_that_refuses_them() -> None:
    def client(name: str, **columns: Any) -> dict[str, Any]:
        return {"client": name, "verdict": "refused", "refused_from": "4.0", **columns}

    table = listed(
        "clients",
        *map(client, "abcd"),
        client("a", software_name="sarama"),  # another software of the same name is the same client
        client("e", refused_from="4.1"),
        client("f", verdict="works", refused_from=None),
        client("a", api="Fetch", api_version=3),
    )
    assert told(table) == [
        ("error", "4 clients will be refused by Kafka 4.0: a, b, c and 1 more."),
        ("error", "1 client will be refused by Kafka 4.1: e."),
    ]


def stall(day: int, hour: int = 0, **columns: Any) -> dict[str, Any]:
    since = BEGIN_US + day * DAY_US + hour * 3_600_000_000
    return {"group_id": "g", "severity": "error", "since": since, "duration_us": 30_000_000, "blamed": ["b"], **columns}


def test_a_group_that_stalls_at_the_same_hour_of_three_days_does_so_every_day() -> None:
    assert told(listed("group-stalls", stall(0), stall(1, duration_us=40_000_000), stall(2))) == [
        ("error", "Group g stalls every day at 05:00 UTC (3 days), for up to 40.0 s, waiting for b.")
    ]
    assert told(listed("group-stalls", stall(0), stall(0), stall(1), stall(2, hour=1))) == [
        ("error", "Group g stalls 4 times, for up to 30.0 s, waiting for b.")
    ]


def test_short_stalls_and_those_for_information_are_no_news() -> None:
    table = listed("group-stalls", stall(0, duration_us=4_000_000), stall(0, severity="info"))
    assert told(table)[0][1] == "Nothing stands out."


def test_the_worst_comes_first_and_what_other_tables_tell_is_not_told_twice() -> None:
    found = listed(
        "findings",
        {"severity": "warning", "code": "S001", "name": "address-leak", "client": "a", "findings": 1},
        {"severity": "error", "code": "L005", "name": "newer", "client": None, "findings": 2},
        {"severity": "error", "code": "L005", "name": "newer", "client": "b", "findings": 3},
        {"severity": "warning", "code": "S034", "name": "blind-retry-duplicates", "client": "a", "findings": 1},
        {"severity": "info", "code": "L014", "name": "unknown-tag", "client": "a", "findings": 9},
    )
    assert told(found) == [
        ("error", "L005 newer: 5 times, with ?, b."),
        ("warning", "S001 address-leak: once, with a."),
    ]


def test_errors_that_groups_need_are_no_news() -> None:
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
    assert told(table) == [
        (
            "info",
            "Produce was answered with NOT_LEADER_OR_FOLLOWER about orders 3 times (1.50% of its answers), "
            "between 2026-11-21 05:00:00 and 2026-11-21 05:00:01.",
        )
    ]


def test_a_burst_of_errors_is_told_however_small_a_part_it_is() -> None:
    def errors(name: str, count: int, seconds: int) -> dict[str, Any]:
        return {"by": "api", "value": "Produce", "error": name, "responses": count, "share": 0.0001,
                "first_at": BEGIN_US, "last_at": BEGIN_US + seconds * 1_000_000}  # fmt: skip

    [(_, text)] = told(listed("errors", errors("A", 20, 20), errors("B", 20, 30), errors("C", 9, 1)))
    assert text.startswith("Produce was answered with A 20 times (0.01% of its answers), between")


def test_hot_partitions_and_throttled_clients() -> None:
    hot = listed(
        "partitions", {"topic": "t", "partition": 5, "written_share": 0.9, "written_skew": 5.4, "read_skew": 1.0}
    )
    slowed = listed(
        "throttling",
        {"client": "a", "broker": "b:1", "since": None, "throttled": 4, "total_throttle_us": 2_000_000},
        {"client": "a", "broker": "b:1", "since": BEGIN_US, "throttled": 4, "total_throttle_us": 2_000_000},
    )
    assert told(hot, slowed) == [
        ("info", "a was throttled 4 times by b:1, for 2.0 s in all."),
        ("info", "Partition 5 of t has 90% of what is written to it, 5.4 times its part."),
    ]


def test_of_an_hour_what_is_most_unusual_is_told_once() -> None:
    def unusual(by: str, value: str | None, **columns: Any) -> dict[str, Any]:
        row = {
            "by": by,
            "api": "Produce",
            "value": value,
            "since": BEGIN_US,
            "measure": "p99",
            "sentence": "it is slow",
        }
        return row | columns

    table = listed(
        "anomalies",
        unusual("broker", "b:1"),
        unusual("api", None),
        unusual("api", None, measure="rate"),
        unusual("api", None, since=BEGIN_US + DAY_US),
    )
    assert told(table) == [
        ("warning", "Produce of b:1, 2026-11-21 05:00: it is slow."),
        ("warning", "Produce, 2026-11-22 05:00: it is slow."),
    ]
