"""For a week of a fleet, the jobs match plain Python and find exactly the planted problems.

These tests use the embedded engine, whose tables `test_engines` compares with those of Spark, for fewer lines.
KPROXY_PLANTED_LINES=1000000 runs the tests over a million lines, with Spark, too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kproxy.spark import jobs
from kproxy.spark.derived.cache import shared_results
from kproxy.spark.ingest.convert import convert, read_table
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.inputs import find_files
from kproxy.spark.ingest.lines import Period, open_lines
from kproxy.spark.report import tables
from kproxy.spark.report.charts import MAX_APIS, WAITING, ChartSeries
from kproxy.spark.report.contents import Figures, figures
from kproxy.spark.report.headlines import headlines
from kproxy.spark.report.pages import MAX_ROWS, MAX_SIZE, contents, report
from kproxy.trace.encoding import encode_json
from tests.kproxy.html.pages import ParsedPage
from tests.kproxy.spark import sample_fleet
from tests.kproxy.spark.cases import PLANTED
from tests.kproxy.spark.conftest import ENGINE
from tests.kproxy.spark.files import write
from tests.kproxy.spark.oracle import Oracle, Table

LINES = int(os.environ.get("KPROXY_PLANTED_LINES", "20000"))

pytestmark = pytest.mark.skipif(
    ENGINE == "spark" and "KPROXY_PLANTED_LINES" not in os.environ,
    reason="the embedded engine has the tables of Spark; with KPROXY_PLANTED_LINES, Spark computes these, too",
)

RowFilter = Callable[[dict[str, Any]], bool]


class Fleet:
    """The report of the fleet's lines, and the tables that plain Python computes from them."""

    def __init__(self, figures: Figures, oracle: Oracle) -> None:
        self.figures = figures
        self.oracle = oracle

    def rows(self, job: str) -> list[dict[str, Any]]:
        """Return the complete table of a job, with times in us since 1970."""
        assert not self.figures.tables[job].more
        return self.figures.tables[job].records()

    def table(self, job: str, key_columns: str, columns: str, is_wanted: RowFilter = lambda row: True) -> Table:
        """Return the given columns of a table, keyed by the columns that identify its rows."""
        rows = [row for row in self.rows(job) if is_wanted(row)]
        rows_by_key = {
            tuple(row[name] for name in key_columns.split()): tuple(map(row.get, columns.split())) for row in rows
        }
        assert len(rows_by_key) == len(rows)
        return rows_by_key

    def over_time(self, chart: list[ChartSeries], name: str | None = None) -> Table:
        """Return the marks of all series by name and bucket, or those of the series `name` by bucket."""
        begins = self.figures.axis.begins
        return {
            (*((series.name,) if name is None else ()), begins[mark[0]]): tuple(mark[1:])
            for series in chart
            for mark in series.marks
            if name in (None, series.name)
        }


@pytest.fixture(scope="module")
def fleet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("fleet")
    sample_fleet.write(folder / "traces", LINES)
    convert(spark, find_files(spark, [str(folder / "traces")]), str(folder / "table"), CaptureOptions())
    lines = read_table(spark, str(folder / "table"))
    oracle = Oracle(line for _, line in sample_fleet.lines(LINES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "MAX_PER_KIND", 10_000)
        patch.setattr(tables, "MAX_ROWS", 10_000)
        with shared_results(lines, jobs.names()):
            report_figures = figures(lines)
    return Fleet(report_figures, oracle)


def matches(table: Table, expected: Table) -> bool:
    """Return whether the tables have the same rows; numbers may differ in their last digits."""
    assert table.keys() == expected.keys()
    return all(
        value == (expected_value if expected_value is None else pytest.approx(expected_value, rel=1e-9))
        for key, row in expected.items()
        for value, expected_value in zip(table[key], row, strict=True)
    )


def microseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000


def hour(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).replace(minute=0, second=0)


def test_facts_match_plain_python(fleet: Fleet) -> None:
    facts, oracle = fleet.figures.facts, fleet.oracle
    assert (facts.lines, facts.requests, facts.refused, facts.wire_bytes, facts.first_us, facts.last_us) == (
        oracle.lines, oracle.requests, oracle.refused, oracle.wire_bytes, oracle.first_us, oracle.last_us,
    )  # fmt: skip
    connections = oracle.connections()
    assert facts.connections == sum(row[0] for row in connections.values())
    assert facts.clients == len({client for client, _, _ in connections})
    assert (facts.brokers, facts.proxies, facts.missed_bytes) == (4, 3, 0)


@pytest.mark.parametrize(
    ("job", "key_columns", "columns"),
    [
        ("latency", "by api value", "responses p50_us p90_us p99_us p999_us max_us"),
        (
            "throughput",
            "by value",
            "requests responses request_total_bytes request_p50_bytes request_p99_bytes request_max_bytes "
            "response_total_bytes response_p50_bytes response_p99_bytes response_max_bytes first_at last_at",
        ),
        ("errors", "by value error code", "responses share first_at last_at"),
        ("throttling", "client broker since", "responses throttled total_throttle_us max_throttle_us"),
        ("partitions", "topic partition", "written_bytes written_share written_skew read_bytes read_share read_skew"),
        ("batches", "client topic", "requests batches records total_bytes"),
        ("connections", "client host broker", "connections opened peak_a_minute short unanswered p50_life_us"),
    ],
)
def test_tables_match_plain_python(fleet: Fleet, job: str, key_columns: str, columns: str) -> None:
    assert matches(fleet.table(job, key_columns, columns), getattr(fleet.oracle, job)())


def test_fetches_and_uses_match_plain_python(fleet: Fleet) -> None:
    actual = fleet.table("fetches", "client", "fetches empty brought_bytes records", lambda row: row["topic"] is None)
    assert matches(actual, fleet.oracle.fetches())
    actual = fleet.table("clients", "client api api_version", "requests", lambda row: row["api"] is not None)
    assert matches(actual, fleet.oracle.uses())


def test_charts_match_plain_python(fleet: Fleet) -> None:
    report_figures, oracle, step = fleet.figures, fleet.oracle, fleet.figures.axis.step_us
    begins = report_figures.axis.begins
    heat = oracle.heat(step, WAITING)
    assert len(report_figures.heat) == 1 + MAX_APIS
    for series in report_figures.heat:
        marks = {(begins[index], row): (count,) for index, row, count in series.marks}
        assert marks == heat[series.name]
    assert matches(fleet.over_time(report_figures.brokers), oracle.brokers(step, WAITING))
    assert fleet.over_time(report_figures.errors) == oracle.refusals(step)
    assert fleet.over_time(report_figures.traffic, "") == oracle.traffic(step)


def test_only_old_clients_are_refused(fleet: Fleet) -> None:
    refused = fleet.table("clients", "client api api_version", "refused_from", lambda row: row["verdict"] == "refused")
    expected = dict.fromkeys(PLANTED.old_clients, ("4.0",))
    assert refused == expected | {(client, None, None): ("4.0",) for client, _, _ in expected}
    assert {row["verdict"] for row in fleet.rows("clients")} == {"refused", "works"}


def test_metadata_loop_is_found(fleet: Fleet) -> None:
    [row] = fleet.rows("metadata-storms")
    assert (row["client"], row["requests"], row["refused"]) == (PLANTED.metadata_loop, *[PLANTED.metadata_requests] * 2)
    assert (row["error"], row["topic"]) == ("UNKNOWN_TOPIC_OR_PARTITION", "reports-missing")
    assert hour(row["first_at"]) == PLANTED.metadata_loop_hour


def test_planted_errors_are_found(fleet: Fleet) -> None:
    """The only topic errors are the planted ones and those of the metadata loop."""
    hours_by_error = {
        (row["value"], row["error"]): {hour(row["first_at"]), hour(row["last_at"])}
        for row in fleet.rows("errors")
        if row["by"] == "topic"
    }
    assert hours_by_error == {
        (PLANTED.error_topic, PLANTED.error_name): {PLANTED.error_hour},
        ("reports-missing", "UNKNOWN_TOPIC_OR_PARTITION"): {PLANTED.metadata_loop_hour},
    }


def test_group_that_stalls_every_night_is_found(fleet: Fleet) -> None:
    rows = fleet.rows("group-stalls")
    assert {row["group_id"] for row in rows if row["stall"] != "disturbed"} == {PLANTED.stalled_group}
    waits = [row for row in rows if row["stall"] == "join-waits"]
    assert sorted(hour(row["since"]) for row in waits) == list(PLANTED.stalled_hours)
    for row in waits:
        assert row["duration_us"] == pytest.approx(PLANTED.stalled_us, abs=100_000)
        assert len(row["blamed"]) == 1
        assert row["blamed"][0].startswith(f"{PLANTED.stalled_group}-busy")
    assert {row["stall"] for row in rows} <= {"join-waits", "not-rejoining", "disturbed"}


def test_rebalance_storm_is_found(fleet: Fleet) -> None:
    storms = [row for row in fleet.rows("rebalances") if row["storm"]]
    assert {row["group_id"] for row in storms} == {PLANTED.storm_group}
    assert {hour(row["since"]) for row in storms} == {PLANTED.storm_hour}
    [stall] = [row for row in fleet.rows("group-stalls") if row["stall"] == "disturbed"]
    assert (stall["group_id"], hour(stall["since"])) == (PLANTED.storm_group, PLANTED.storm_hour)
    group_rows = [row for row in fleet.rows("rebalances") if row["group_id"] == PLANTED.storm_group]
    assert [row["generation"] for row in group_rows] == list(range(1, 2 * PLANTED.storm_rounds + 2))


def test_connection_churn_is_found(fleet: Fleet) -> None:
    worst, second, *_ = fleet.rows("connections")
    assert (worst["client"], worst["connections"], worst["short"]) == (
        PLANTED.churning,
        *[PLANTED.churn_connections] * 2,
    )
    assert hour(worst["peak_at"]) == PLANTED.churn_hour
    assert second["peak_a_minute"] <= 4


def test_idle_close_race_and_its_retry_are_found(fleet: Fleet) -> None:
    [race] = [row for row in fleet.rows("idle-closes") if row["races"]]
    assert (race["client"], race["races"], race["lost_apis"]) == (PLANTED.idle_race, 1, ["Produce"])
    assert hour(race["last_race_at"]) == PLANTED.idle_race_hour
    retries = fleet.table("retries", "client kind api", "retries")
    assert retries == {
        (PLANTED.idle_race, "lost", "Produce"): (1,),
        (PLANTED.blind_retries, "batch", "Produce"): (PLANTED.retried,),
    }


def test_throttled_client_is_found(fleet: Fleet) -> None:
    rows = fleet.rows("throttling")
    assert {row["client"] for row in rows} == {PLANTED.throttled}
    assert {row["since"] for row in rows} == {None, microseconds(PLANTED.throttled_hour)}
    assert {row["throttled"] for row in rows} == {PLANTED.throttled_responses}


def test_open_transaction_is_found(fleet: Fleet) -> None:
    open_transaction, *committed = fleet.rows("transactions")
    assert {row["transactional_id"] for row in (open_transaction, *committed)} == {PLANTED.transactional}
    assert (open_transaction["outcome"], open_transaction["ended_at"]) == ("open", None)
    assert open_transaction["begun_at"] - microseconds(PLANTED.transactional_hour) < 3600 * 1_000_000
    assert [row["outcome"] for row in committed] == ["committed"] * PLANTED.committed
    assert {row["records"] for row in committed} == {20}
    assert {row["timeout_us"] for row in committed} == {60_000_000}


def test_hot_partition_is_found(fleet: Fleet) -> None:
    written = {(row["topic"], row["partition"]) for row in fleet.rows("partitions") if (row["written_skew"] or 0) > 3}
    assert written == {(PLANTED.hot_topic, PLANTED.hot_partition)}


def test_only_planted_findings_are_found(fleet: Fleet) -> None:
    client, broker, code = PLANTED.finding
    stalls = 2 * len(PLANTED.stalled_hours)  # each stall is reported as a warning, then as an error
    assert fleet.table("findings", "client broker code", "findings") == {
        (f"{PLANTED.stalled_group}-busy", "10.1.0.1:9092", "G005"): (stalls,),
        (f"{PLANTED.stalled_group}-new", "10.1.0.1:9092", "G001"): (stalls,),
        (client, broker, code): (PLANTED.findings,),
        (PLANTED.blind_retries, "10.1.0.3:9092", "S034"): (PLANTED.retried,),
        (PLANTED.idle_race, "10.1.0.2:9092", "C016"): (1,),
        (f"{PLANTED.storm_group}-2", "10.1.0.3:9092", "G015"): (1,),
    }
    assert fleet.table("rules", "client code", "findings").keys() == {
        (PLANTED.metadata_loop, "S009"),
        (PLANTED.throttled, "S036"),
    }


def test_unusual_hours_are_found(fleet: Fleet) -> None:
    """All unusual hours have planted problems; the slow broker is reported because of its latency."""
    rows = fleet.rows("anomalies")
    slow = [row for row in rows if row["measure"] == "p99" and row["by"] == "broker"]
    assert {row["value"] for row in slow} == {PLANTED.slow_broker}
    assert {row["since"] for row in slow} == {microseconds(PLANTED.slow_hour)}
    errors = {(row["by"], row["api"], row["value"]): row["since"] for row in rows if row["measure"] == "errors"}
    assert errors["api", "Produce", None] == microseconds(PLANTED.error_hour)
    assert set(errors.values()) == {microseconds(PLANTED.error_hour)}
    slow_hours = {row["since"] for row in rows if row["measure"] == "p99"}
    # Responses to the batches that are then resent took 150 ms.
    assert slow_hours <= {microseconds(PLANTED.slow_hour), microseconds(PLANTED.blind_retries_hour)}
    busy_hours = (PLANTED.metadata_loop_hour, PLANTED.churn_hour, PLANTED.storm_hour, PLANTED.findings_hour)
    assert {row["since"] for row in rows if row["measure"] == "rate"} <= set(map(microseconds, busy_hours))


def test_page_reports_every_planted_problem(fleet: Fleet) -> None:
    page = report(fleet.figures, ["kproxy-trace"])
    assert len(page.encode()) < MAX_SIZE
    data = ParsedPage(page).data
    for table in data["tables"]:
        assert table["rows"] == json.loads(encode_json(fleet.figures.tables[table["name"]].cut(MAX_ROWS).rows))
    texts = [headline["text"] for headline in data["headlines"]]
    [upgrade] = [text for text in texts if "Kafka 4.0" in text]
    assert upgrade.startswith("3 clients will be refused by Kafka 4.0: legacy-audit, legacy-etl, legacy-sync; active ")
    assert texts[-1] == upgrade
    assert all(text.endswith(" UTC.") for text in texts)
    [slow] = [text for text in texts if "2026-11-21 13:00" in text]
    assert re.fullmatch(rf"Broker {PLANTED.slow_broker} was about 2\dx slower, 2026-11-21 13:00-14:00 UTC\.", slow)
    for name in (
        PLANTED.stalled_group, PLANTED.storm_group, PLANTED.slow_broker, PLANTED.metadata_loop, PLANTED.throttled,
        PLANTED.churning, PLANTED.idle_race, PLANTED.hot_topic, PLANTED.blind_retries, PLANTED.error_topic,
    ):  # fmt: skip
        assert any(name in text for text in texts), name
    [stalls] = [text for text in texts if PLANTED.stalled_group in text]
    assert "every day at 02:00 UTC (7 days)" in stalls


def test_two_clusters_with_equal_names_are_separated(
    spark: SparkSession, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The traces contain no cluster id; only the brokers and their proxies differ."""
    sample_fleet.write(tmp_path / "a", LINES)
    for path in (tmp_path / "a").rglob("*.jsonl"):
        data = path.read_bytes().replace(b'"10.1.', b'"10.2.').replace(b'"web-', b'"lab-')
        write(tmp_path / "b" / path.relative_to(tmp_path / "a").with_name(path.name.replace("web-", "lab-")), data)
    monkeypatch.setattr(tables, "MAX_PER_KIND", 20_000)
    monkeypatch.setattr(tables, "MAX_ROWS", 20_000)
    with open_lines(spark, [str(tmp_path / name) for name in "ab"], CaptureOptions(), period=Period()) as lines:
        assert lines.clusters == ["10.1.0.1:9092", "10.2.0.1:9092"]
        with shared_results(lines.rows, jobs.names()):
            both_figures = figures(lines.rows, clusters=lines.clusters)
    for job, table in both_figures.tables.items():
        single_table = fleet.figures.tables[job]
        assert [name for name, _ in table.columns] == [*(name for name, _ in single_table.columns), "cluster"]
        for cluster, network in zip(lines.clusters, ("10.1.", "10.2."), strict=True):
            actual = [row[:-1] for row in table.rows if row[-1] == cluster]
            expected = json.loads(encode_json(single_table.rows).replace(b"10.1.", network.encode()))
            assert _sorted_texts(actual) == _sorted_texts(expected), job
    single_facts, facts = fleet.figures.facts, both_figures.facts
    assert (facts.lines, facts.clients, facts.brokers) == (
        2 * single_facts.lines,
        2 * single_facts.clients,
        2 * single_facts.brokers,
    )
    texts = [headline.text for headline in headlines(fleet.figures)]
    expected = [f"Cluster 10.1.0.1:9092: {text}" for text in texts]
    expected += [text.replace("10.1.", "10.2.") for text in expected]
    assert sorted(headline["text"] for headline in contents(both_figures, [])["headlines"]) == sorted(expected)


def _sorted_texts(rows: list[list[Any]]) -> list[str]:
    """Return rows as sorted texts, without the last digits of numbers and the prefixes of proxies, which can differ."""

    def normalize(value: Any) -> Any:
        return f"{value:.9g}" if isinstance(value, float) else re.sub("lab-|web-", "", str(value))

    return sorted(str(list(map(normalize, row))) for row in rows)
