from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from kproxy.spark.jobs.connections import connections
from kproxy.trace.lines import Line
from tests.kproxy.spark.reference import assert_rows
from tests.kproxy.spark.sample_lines import close, moment, open_, request, response, table


def connection_lines(number: int, at: float, lifetime_s: float, request_count: int = 1, **columns: Any) -> list[Line]:
    endpoints: dict[str, Any] = {"connection_id": f"n-1-{number}", "client": f"10.0.0.9:{number}"}
    frames = [
        line(at=at + 0.001 * (index + 1), **endpoints) for index in range(request_count) for line in (request, response)
    ]
    return [
        open_(at=at, **endpoints),
        *frames,
        close(at=at + lifetime_s, **{"by": "client", "how": "fin"} | endpoints | columns),
    ]


def test_connections_are_counted_per_minute(spark: SparkSession) -> None:
    lines = table(
        spark,
        # two in one minute, one in the next
        *(line for number in range(3) for line in connection_lines(number, 58 + number, 0.5)),
        *connection_lines(3, 119.9, 10, 2, by="server", how="reset", unanswered=1),  # 10 s is not short
        *connection_lines(4, 200, 9.9, by="proxy", how="fin"),
        open_(at=300, connection_id="n-1-5", client="10.0.0.9:5"),  # no frames, and still open
        # Observed midstream: the connection was opened earlier.
        open_(at=301, connection_id="n-1-6", midstream=True), request(at=302, connection_id="n-1-6", client_id=None),
        close(at=303, connection_id="n-1-6"),
    )  # fmt: skip
    assert_rows(
        connections(lines),
        [
            {
                "client": "app", "host": "10.0.0.9", "broker": "10.0.0.1:9092", "connections": 5, "opened": 5,
                "peak_a_minute": 2, "peak_at": _time(0), "short": 4, "p50_life_us": 500_000.0, "unused": 0,
                "per_connection": 1.2, "by_client": 3, "by_broker": 1, "by_proxy": 1, "resets": 1, "unanswered": 1,
            },
            {
                "client": "10.0.0.9", "host": "10.0.0.9", "broker": "10.0.0.1:9092", "connections": 2, "opened": 1,
                "peak_a_minute": 1, "peak_at": _time(300), "short": 0, "unused": 1, "per_connection": 0.5,
                "by_client": 0, "by_broker": 0, "by_proxy": 0, "resets": 0, "unanswered": 0,
            },
        ],
    )  # fmt: skip


def _time(at: float) -> datetime:
    return datetime.fromisoformat(moment(at)).replace(tzinfo=None)


def test_connections_of_captures_match_their_lines(captured: DataFrame) -> None:
    lines_by_connection: dict[str, list[Row]] = defaultdict(list)
    for line in captured.where("kind in ('open', 'close', 'request', 'response')").collect():
        lines_by_connection[line["connection_id"]].append(line)
    counted: Counter[tuple[str, str, str]] = Counter()
    lifetimes_us = defaultdict(list)
    for lines in lines_by_connection.values():
        host = lines[0]["client"].rpartition(":")[0]
        key = max(line["client_id"] or "" for line in lines) or host, host, lines[0]["server"]
        counted[key] += 1
        times = {line["kind"]: line["ts"] for line in lines}
        if "close" in times:
            lifetimes_us[key].append((times["close"] - times["open"]).total_seconds() * 1e6)
    rows = {(row["client"], row["host"], row["broker"]): row for row in connections(captured).collect()}
    assert {key: row["connections"] for key, row in rows.items()} == counted
    [(key, connection_count)] = counted.most_common(1)
    row = rows[key]
    assert connection_count > 20
    assert round(row["p50_life_us"]) == round(median(lifetimes_us[key]))
    assert row["short"] == sum(lifetime_us < 10_000_000 for lifetime_us in lifetimes_us[key])
