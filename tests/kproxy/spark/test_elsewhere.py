"""Spark that runs elsewhere: a cluster of a master and a worker on loopback, and a Spark Connect server.

Executors of the one and the server are processes of their own that are sent kproxy as a zip. One file, for all of them
are compared with what this process makes of the same inputs.
"""

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
from kproxy.spark.filter_columns import where
from kproxy.spark.ingest.convert import read_table
from tests.kproxy.spark.spark_processes import (
    JAVA_OPTIONS,
    LocalResult,
    analyze,
    analyze_locally,
    check_tables,
    python_without_kproxy,
    spark_process,
    write_inputs,
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces and captures to convert."""
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def local(spark: SparkSession, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> LocalResult:
    """The results of this process for the inputs."""
    return analyze_locally(spark, inputs, tmp_path_factory.mktemp("local") / "table")


@dataclass(frozen=True)
class Cluster:
    """The master URL, the directory of the worker, and the Python of the machines."""

    master: str
    work: Path
    python: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    python = python_without_kproxy(folder / "python")
    here = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    master = ["spark-class", "org.apache.spark.deploy.master.Master", *here]
    with spark_process(master, python, r"Starting Spark master at (spark://\S+)") as url:
        worker = ["spark-class", "org.apache.spark.deploy.worker.Worker", *here]
        worker += ["--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"), url]
        with spark_process(worker, python, "(Successfully registered) with master"):
            yield Cluster(url, folder / "work", python)


def test_two_executors_produce_the_tables_of_one_process(
    cluster: Cluster, spark: SparkSession, inputs: Path, local: LocalResult, tmp_path: Path
) -> None:
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.executor.cores": "1",
        "spark.executor.memory": "600m", "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.shuffle.partitions": "2",
    }  # fmt: skip
    there = ["--master", cluster.master]
    for name, value in settings.items():
        there += ["--conf", f"{name}={value}"]
    check_tables(cluster.python, there, spark, inputs, local, tmp_path)

    executors = [path.name for path in cluster.work.glob("app-*/*") if (path / "stderr").exists()]
    assert sorted(executors) == ["0", "0", "1", "1"]  # of each of the two commands


def test_cluster_requires_converted_traces(cluster: Cluster, inputs: Path) -> None:
    done = analyze(cluster.python, "--master", cluster.master, "--conf", "spark.driver.host=127.0.0.1", inputs)
    assert done.returncode == 2
    assert "run kproxy analyze convert TRACES --out DIR" in done.stderr


@dataclass(frozen=True)
class Server:
    """The URL of the server, and the Python of its machine."""

    url: str
    python: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("grpc")
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


def test_server_produces_the_tables_of_one_process(
    server: Server, spark: SparkSession, inputs: Path, local: LocalResult, tmp_path: Path
) -> None:
    check_tables(server.python, ["--master", server.url], spark, inputs, local, tmp_path)


def test_filters_and_times_select_the_lines(server: Server, spark: SparkSession, local: LocalResult) -> None:
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


def test_connection_errors_are_one_sentence(server: Server, inputs: Path) -> None:
    wrong = {
        (server.url, str(inputs)): "run kproxy analyze convert TRACES --out DIR",
        ("sc://127.0.0.1:1", str(inputs)): "no Spark Connect server at 127.0.0.1:1",
    }
    for (url, path), says in wrong.items():
        done = analyze(server.python, "--master", url, path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert says in done.stderr
