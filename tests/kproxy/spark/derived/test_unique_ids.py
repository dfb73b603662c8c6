"""Connections that share an id are given unique ids."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kproxy.live.options import InspectorOptions
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions
from kproxy.proxy.tap_messages import Hello
from kproxy.spark import jobs
from kproxy.spark.derived.connection_ids import source
from kproxy.spark.derived.unique_ids import Opened, identify_connections, with_unique_ids
from kproxy.trace.lines import Detail, Line
from tests.kproxy.spark.sample_lines import BEGIN_NS, close, open_, request, response, table

_HOUR = "file:/t/date=2026-11-21/hour="
#: BEGIN_NS as written in ids, and the time one second later.
_START, _LATER = "20261121T050000000", "20261121T050001000"


def table_of_files(spark: SparkSession, files: dict[str, list[Line]]) -> DataFrame:
    tables = (table(spark, *lines).withColumn("file", F.lit(file)) for file, lines in files.items())
    return reduce(DataFrame.unionAll, tables)


def connection(port: int, *, at: float, connection_id: str = "vm-1-1", **columns: object) -> Iterator[Line]:
    """Yield the lines of a connection with one exchange."""
    endpoints = {"connection_id": connection_id, "client": f"10.0.0.9:{port}"}
    yield open_(at=at, **endpoints, **columns)
    yield request(at=at + 0.1, **endpoints)
    yield response(at=at + 0.2, latency_us=100_000, **endpoints)
    yield close(at=at + 0.3, by="server", how="fin", **endpoints)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {f"{_HOUR}05/kproxy-vm-1-1.jsonl": [*connection(1, at=0)],
             f"{_HOUR}05/kproxy-vm-1-2.jsonl": [*connection(2, at=1)]},
            id="a container that restarts",
        ),
        pytest.param(
            {f"{_HOUR}05/kproxy-vm-1-1.jsonl": [*connection(1, at=0)][:2],
             f"{_HOUR}06/kproxy-vm-1-1.jsonl": [*connection(1, at=0)][2:],
             f"{_HOUR}06/kproxy-vm-1-2.jsonl": [*connection(2, at=1)]},
            id="the first run has two files",
        ),
        pytest.param({"file:/all.jsonl": [*connection(1, at=0), *connection(2, at=1)]}, id="one file"),
        pytest.param(
            {"file:/a/capture.pcap.gz": [*connection(1, at=0, midstream=True)],
             "file:/b/capture.pcap.gz": [*connection(2, at=0.001, midstream=True)]},
            id="captures with the same name, at the same time",
        ),
        pytest.param(
            {f"file:/{folder}/date=2026-11-21/hour=0{hour}/kproxy-vm-1-1.jsonl": lines[hour_slice]
             for folder, lines in (("a", [*connection(1, at=0)]), ("b", [*connection(2, at=0.1)]))
             for hour, hour_slice in ((5, slice(2)), (6, slice(2, 4)))},
            id="proxies of two hosts with the same name, at the same time",
        ),
    ],
)  # fmt: skip
def test_connections_that_share_an_id_are_given_unique_ids(spark: SparkSession, files: dict[str, list[Line]]) -> None:
    lines = with_unique_ids(table_of_files(spark, files))
    connections = {
        (row.client, row.connection_id) for row in lines.select("client", "connection_id").distinct().collect()
    }
    assert len(connections) == 2 == len({client for client, _ in connections}) == len({name for _, name in connections})
    assert ("10.0.0.9:1", f"vm-1-{_START}-1") in connections
    assert {row.source for row in lines.select(source(across_runs=True).alias("source")).collect()} == {"vm"}
    rows = jobs.find("connections").run(lines).collect()
    assert sum(row["connections"] for row in rows) == 2
    exchange_rows = jobs.find("slow-exchanges").run(lines).collect()
    assert [row["ahead"] for row in exchange_rows] == [0, 0]


def test_ids_stay_unique_if_the_clock_is_set_back_between_two_runs(spark: SparkSession) -> None:
    files = {"file:/1.jsonl": [*connection(1, at=1)], "file:/2.jsonl": [*connection(2, at=0.9)]}
    ids = with_unique_ids(table_of_files(spark, files)).select("client", "connection_id").distinct().collect()
    assert {tuple(row) for row in ids} == {
        ("10.0.0.9:1", f"vm-1-{_LATER}-1"), ("10.0.0.9:2", "vm-1-20261121T050000900-1"),
    }  # fmt: skip


def test_restarted_inspector_keeps_the_connection_id(spark: SparkSession) -> None:
    reopened = open_(at=0.05, midstream=True, connection_id="vm-1-1", client="10.0.0.9:1")
    lines = table_of_files(
        spark, {"file:/1": [*connection(1, at=0)][:1], "file:/2": [reopened, *connection(1, at=0)][2:]}
    )
    assert {row.connection_id for row in with_unique_ids(lines).collect()} == {"vm-1-1"}


def test_unique_connection_ids_are_unchanged(spark: SparkSession) -> None:
    lines = table(spark, *connection(1, at=0), *connection(2, at=0, connection_id="vm-1-2"))
    assert with_unique_ids(lines) is lines


def test_midstream_line_continues_only_a_connection_with_the_same_endpoints() -> None:
    first, restarted = Opened(1_000, "a", False, "c:1", "s"), Opened(2_000, "b", True, "c:1", "s")
    reopened, other = Opened(3_000, "c", False, "c:1", "s"), Opened(4_000, "d", True, "c:2", "s")
    assert [name for _, name in identify_connections("vm-1-7", [other, reopened, restarted, first])] == [
        f"vm-1-19700101T00000000{ms}-7" for ms in (1, 1, 3, 4)
    ]


def test_connection_ids_contain_the_start_of_the_run() -> None:
    hello = Hello(BEGIN_NS + 5, "vm", 1, [], started=BEGIN_NS)
    options = InspectorOptions(OutputOptions(), Selection(), Detail.SUMMARY)
    inspector = options.inspector(hello)
    [line] = inspector.open(7, client="c:1", server="s:1", at=BEGIN_NS + 9)
    assert line.connection_id == f"vm-1-{_START}-7"
