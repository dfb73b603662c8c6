"""The notebook and the SQL queries in the docs run over a converted table and match plain Python."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kproxy.cli import main
from kproxy.spark import jobs
from kproxy.spark.derived.latency_sketch import percentiles
from kproxy.spark.ingest.convert import read_table
from tests.kproxy.capture_results import DATA
from tests.kproxy.spark.files import REPOSITORY
from tests.kproxy.spark.reference import percentile

DOCS = REPOSITORY / "docs"
_CAPTURE = DATA / "pcap" / "java-3.9.1.pcap.gz"


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the table `lines`, and with the facts of one day in `tables`."""
    directory = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(spark), "stop", lambda _: None)
        assert main(["analyze", "convert", str(_CAPTURE), "--out", str(directory / "lines")]) == 0
    facts = jobs.find("facts").run(read_table(spark, str(directory / "lines")))
    facts.write.parquet(str(directory / "tables" / "day=1" / "facts"))
    return directory


@pytest.fixture(scope="module")
def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the table, read without Spark."""
    files = sorted((folder / "lines").rglob("*.parquet"))
    return [line for file in files for line in pq.ParquetFile(file).read().to_pylist() if line["kind"]]


def test_notebook_runs_and_matches_plain_python(
    folder: Path, lines: list[dict[str, Any]], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPROXY_LINES", str(folder / "lines"))
    notebook = json.loads((DOCS / "examples" / "kproxy.ipynb").read_text())
    namespace: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "clear its outputs"
            exec("".join(cell["source"]), namespace)  # as Jupyter does
    written: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if line["kind"] == "request" and line["api"] == "Produce":
            for entry in line["topics"]:
                written[line["client_id"], entry["topic"]] += entry["bytes"]
    rows = namespace["producers"].collect()
    assert {(row["client_id"], row["topic"]): row["bytes"] for row in rows} == written
    assert namespace["per_minute"]["count"].sum() == sum(line["kind"] == "request" for line in lines)
    assert {row["api"] for row in namespace["days"].collect()} == {row["api"] for row in namespace["latency"].collect()}


@pytest.fixture
def query(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[tuple[Any, ...]]]:
    """Return a function that runs the query under a heading of docs/duckdb.md, with the page's views."""
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(folder)
    connection = duckdb.connect()

    def run(heading: str) -> list[tuple[Any, ...]]:
        page = (DOCS / "duckdb.md").read_text()
        before, _, section = page.partition(f"## {heading}\n")
        assert section, heading
        blocks = [*re.findall(r"```sql\n(.*?)```", before, re.DOTALL)[:1],
                  *re.findall(r"```sql\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)]  # fmt: skip
        for block in blocks:
            result = connection.execute(block)
        rows: list[tuple[Any, ...]] = result.fetchall()
        return rows

    return run


def test_every_duckdb_query_in_the_documentation_runs(query: Callable[[str], Any]) -> None:
    page = (DOCS / "duckdb.md").read_text()
    headings = [heading for heading in re.findall(r"^## (.+)$", page, re.MULTILINE) if heading != "Limits"]
    assert len(headings) == page.count("```sql") - 2
    for heading in headings:
        query(heading)


def test_latency_query_matches_plain_python(
    query: Callable[[str], list[tuple[Any, ...]]], lines: list[dict[str, Any]]
) -> None:
    latencies_by_api: dict[str, list[int]] = defaultdict(list)
    for line in lines:
        if line["api"] is not None and line["latency_us"] is not None:
            latencies_by_api[line["api"]].append(line["latency_us"])
    assert {row[0]: row[1:] for row in query("Latency by API")} == {
        api: (
            len(latencies),
            pytest.approx(percentile(latencies, 0.5)),
            pytest.approx(percentile(latencies, 0.99)),
            max(latencies),
        )
        for api, latencies in latencies_by_api.items()
    }


def test_errors_query_matches_plain_python(
    query: Callable[[str], list[tuple[Any, ...]]], lines: list[dict[str, Any]]
) -> None:
    counts: Counter[tuple[str, str, str]] = Counter()
    for line in lines:
        if line["kind"] == "response":
            client = line["client_id"] or line["client"].rpartition(":")[0]
            counts.update((client, line["api"], name) for name in {entry["name"] for entry in line["errors"] or ()})
    assert {row[:3]: row[3] for row in query("Errors, and who gets them")} == counts != {}


def test_bytes_query_matches_plain_python(
    query: Callable[[str], list[tuple[Any, ...]]], lines: list[dict[str, Any]]
) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if line["kind"] == "request" and line["api"] == "Produce":
            for entry in line["topics"]:
                counts[entry["topic"] or entry["topic_id"], line["client_id"]] += entry["bytes"]
    assert {row[:2]: row[2] for row in query("Bytes by topic and client")} == counts != {}


def test_percentiles_query_matches_the_job(
    query: Callable[[str], list[tuple[Any, ...]]], spark: SparkSession, folder: Path
) -> None:
    facts = spark.read.parquet(str(folder / "tables" / "day=1" / "facts")).where("topic is null")
    expected = percentiles(facts, "api", shares=(0.5, 0.99)).collect()
    rows = query("Percentiles of days, from stored minutes")
    assert len({row[0] for row in rows}) == 1  # one day
    assert [row[1:] for row in rows] == [tuple(row) for row in expected]
