from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.idle_closes import idle_closes
from kproxy.trace.lines import Line
from tests.kproxy.spark.reference import assert_rows
from tests.kproxy.spark.sample_lines import close, moment, request, response, table


def exchange(connection: str, until: float = 1) -> list[Line]:
    """Return a request and its response, which arrives at `until`."""
    return [request(at=until - 0.001, connection_id=connection), response(at=until, connection_id=connection)]


def test_request_that_crosses_with_an_idle_close_is_a_race(spark: SparkSession) -> None:
    lines = table(
        spark,
        *exchange("n-1-1"),
        request("Produce", at=601, offset=1, connection_id="n-1-1", acks=-1),
        request("Metadata", at=601.2, offset=2, connection_id="n-1-1"),
        close(at=602, connection_id="n-1-1", by="server", how="reset", unanswered=2),
        *exchange("n-1-2"),
        close(at=541, connection_id="n-1-2", by="server", how="fin"),  # no request crosses with it
        *exchange("n-1-3"),
        close(at=31, connection_id="n-1-3", by="client", how="fin"),
    )
    common = {"client": "app", "host": "10.0.0.9", "broker": "10.0.0.1:9092"}
    race_at = datetime.fromisoformat(moment(601)).replace(tzinfo=None)
    assert_rows(
        idle_closes(lines),
        [
            common | {
                "closed_by": "server", "idle_closes": 1, "races": 1, "shortest_idle_us": 540_000_000,
                "longest_idle_us": 600_000_000, "lost_apis": ["Produce"], "last_race_at": race_at,
                "connection_id": "n-1-1",
            },
            common | {
                "closed_by": "client", "idle_closes": 1, "races": 0, "shortest_idle_us": 30_000_000,
                "longest_idle_us": 30_000_000, "lost_apis": [],
            },
        ],
    )  # fmt: skip


def test_busy_connections_are_neither_idle_closes_nor_races(spark: SparkSession) -> None:
    lines = table(
        spark,
        *exchange("n-1-1"),  # 29 s do not count as idle
        request(at=30, connection_id="n-1-1"),
        close(at=30.1, connection_id="n-1-1", by="server", how="reset", unanswered=1),
        *exchange("n-1-2"),
        *exchange("n-1-2", until=301),  # the connection was idle, but this request is answered
        request(at=302, connection_id="n-1-2"),
        close(at=302.1, connection_id="n-1-2", by="server", how="reset", unanswered=1),
        *exchange("n-1-3"),
        request(at=301, connection_id="n-1-3"),  # the broker works on it before closing
        close(at=311.1, connection_id="n-1-3", by="server", how="fin", unanswered=1),
        *exchange("n-1-4"),
        request(at=301, connection_id="n-1-4"),  # the client gives up
        close(at=302, connection_id="n-1-4", by="client", how="fin", unanswered=1),
        *exchange("n-1-5"),
        # Requests without acks get no response, but show that the connection was not idle.
        *(request("Produce", at=at, offset=at, connection_id="n-1-5", acks=0) for at in range(2, 300, 20)),
        request("Produce", at=301, connection_id="n-1-5", acks=-1),
        close(at=301.1, connection_id="n-1-5", by="server", how="fin", unanswered=1),
        *exchange("n-1-6"),
        close(at=600, connection_id="n-1-6", by="proxy", how="fin"),  # kproxy was stopped
        *exchange("n-1-7"),
    )
    assert idle_closes(lines).isEmpty()


def test_idle_closes_of_captures_end_long_after_their_last_frame(captured: DataFrame) -> None:
    last_frame_at, closed_at = {}, {}
    for line in captured.orderBy("ts").collect():
        if line["kind"] in ("request", "response"):
            last_frame_at[line["connection_id"]] = line["ts"]
        elif line["kind"] == "close" and line["by"] in ("client", "server") and not line["unanswered"]:
            closed_at[line["connection_id"]] = line["ts"]
    pauses = [close_time - last_frame_at[name] for name, close_time in closed_at.items() if name in last_frame_at]
    idle_us = [round(pause.total_seconds() * 1e6) for pause in pauses if pause.total_seconds() >= 30]
    rows = idle_closes(captured).collect()
    assert sum(row["idle_closes"] for row in rows) == len(idle_us) > 0
    assert max(row["longest_idle_us"] for row in rows) == max(idle_us)
