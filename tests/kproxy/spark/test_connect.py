"""Spark Connect: a server on loopback that is sent kproxy as a zip, and the command as its client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kproxy.filters import parse
from kproxy.spark import jobs
from kproxy.spark.reading.convert import read_table
from kproxy.spark.where import where
from tests.kproxy.html.pages import Opened
from tests.kproxy.spark.elsewhere import (
    JAVA_OPTIONS,
    Local,
    analyze,
    python_without_kproxy,
    same_rows,
    spark_process,
    zipped,
)

pytest.importorskip("grpc")


@dataclass(frozen=True)
class Server:
    """Its URL, and the Python of its machine."""

    url: str
    python: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    python = python_without_kproxy(tmp_path_factory.mktemp("server") / "python")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0",
        "spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    }  # fmt: skip
    command = [
        "spark-submit",
        "--master",
        "local[2]",
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    with spark_process(
        [*command, "spark-internal"], python, r"Spark Connect server started at: \D*([\d.:]+)"
    ) as address:
        yield Server(f"sc://{address}", python)


def test_a_server_gives_the_tables_of_one_process(
    server: Server, spark: SparkSession, inputs: Path, local: Local, tmp_path: Path
) -> None:
    there = ["--master", server.url, "--conf", f"spark.submit.pyFiles={zipped(tmp_path / 'kproxy.zip')}"]
    table, page, out = tmp_path / local.table.name, tmp_path / "report.html", tmp_path / "out"

    done = analyze(server.python, *there, "convert", inputs, "--out", table)
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (0, "", local.said(table))
    assert same_rows(read_table(spark, str(table)), read_table(spark, str(local.table)))

    done = analyze(server.python, *there, table, "--html", page, "--job", "findings", "--out", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Opened(page.read_text()).data == local.data
    assert spark.read.parquet(f"{out}/findings").count() == local.rows("findings")


def test_filters_and_times_choose_the_lines(server: Server, spark: SparkSession, local: Local) -> None:
    chosen, until = "api=Fetch and latency>1ms and not client=o*", "2026-11-19T02:00:20"
    done = analyze(
        server.python, "--master", server.url, "--where", chosen, "--until", until, "--job", "throughput",
        "--format", "json", local.table,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = read_table(spark, str(local.table)).where(where(parse(chosen)) & (F.col("ts") < until))
    expected = jobs.find("throughput").run(lines).collect()
    found = [json.loads(line) for line in done.stdout.splitlines()]
    names = ("by", "value", "requests", "responses", "response_max_bytes")
    assert [[row[name] for name in names] for row in found] == [[row[name] for name in names] for row in expected]
    assert len(found) > 3


def test_what_is_wrong_is_one_sentence(server: Server, inputs: Path) -> None:
    wrong = {
        (server.url, str(inputs)): "run kproxy analyze convert TRACES --out DIR",
        ("sc://127.0.0.1:1", str(inputs)): "no Spark Connect server at 127.0.0.1:1",
    }
    for (url, path), says in wrong.items():
        done = analyze(server.python, "--master", url, path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert says in done.stderr
