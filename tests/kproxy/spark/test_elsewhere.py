"""Spark runs elsewhere: in a cluster of a master and a worker on loopback, and in a Spark Connect server.

The cluster's executors and the server are separate processes that receive kproxy as a zip file. The tests are in
one file because all of them compare their results with those of this machine for the same inputs.
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
from kproxy.spark.filter_columns import filter_condition
from kproxy.spark.ingest.convert import read_table
from tests.kproxy.html.pages import ParsedPage
from tests.kproxy.spark.spark_processes import (
    JAVA_OPTIONS,
    LocalResult,
    analyze,
    analyze_locally,
    convert_elsewhere,
    kproxy_files,
    python_without_kproxy,
    spark_process,
    write_inputs,
)

pytest.importorskip("pysail")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory with the traces and captures to convert."""
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def local_result(spark: SparkSession, inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> LocalResult:
    """Return the results of this machine for the inputs."""
    return analyze_locally(spark, inputs, tmp_path_factory.mktemp("local"))


@dataclass(frozen=True)
class Cluster:
    """The URL of the master, the directory of the worker, and the Python of the cluster's machines."""

    master: str
    work: Path
    python: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    python = python_without_kproxy(folder / "python")
    options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    master = ["spark-class", "org.apache.spark.deploy.master.Master", *options]
    with spark_process(master, python, r"Starting Spark master at (spark://\S+)") as url:
        worker = ["spark-class", "org.apache.spark.deploy.worker.Worker", *options]
        worker += ["--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"), url]
        with spark_process(worker, python, "(Successfully registered) with master"):
            yield Cluster(url, folder / "work", python)


def test_two_executors_produce_the_report_of_the_embedded_engine(
    cluster: Cluster, spark: SparkSession, inputs: Path, local_result: LocalResult, tmp_path: Path
) -> None:
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.executor.cores": "1",
        "spark.executor.memory": "600m", "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.shuffle.partitions": "2",
    }  # fmt: skip
    options = ["--master", cluster.master]
    for name, value in settings.items():
        options += ["--conf", f"{name}={value}"]
    table = convert_elsewhere(cluster.python, options, spark, inputs, local_result, tmp_path)

    page, output_dir = tmp_path / "report.html", tmp_path / "out"
    options += [*kproxy_files(tmp_path), "--html", str(page), "--job", "findings", "--out", str(output_dir)]
    result = analyze(cluster.python, *options, table)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert ParsedPage(page.read_text()).data == local_result.data | {"paths": str(table)}
    assert spark.read.parquet(f"{output_dir}/findings").count() == local_result.row_count("findings")

    executors = [path.name for path in cluster.work.glob("app-*/*") if (path / "stderr").exists()]
    assert sorted(executors) == ["0", "0", "1", "1"]  # both executors, for each of the two commands


def test_cluster_requires_converted_traces(cluster: Cluster, inputs: Path) -> None:
    result = analyze(cluster.python, "--master", cluster.master, "--conf", "spark.driver.host=127.0.0.1", inputs)
    assert result.returncode == 2
    assert "run kproxy analyze convert TRACES --out DIR" in result.stderr


@dataclass(frozen=True)
class Server:
    """The URL of the server, and the Python on its machine."""

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
        # Compiling plans takes longer than running them; the cluster above compiles them.
        "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
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


def test_server_produces_tables_of_the_embedded_engine(
    server: Server, spark: SparkSession, inputs: Path, local_result: LocalResult, tmp_path: Path
) -> None:
    options = ["--master", server.url]
    table = convert_elsewhere(server.python, options, spark, inputs, local_result, tmp_path)
    # Three jobs are enough: for the embedded engine, all jobs run through Spark Connect.
    jobs_options = [word for name in ("latency", "findings", "rebalances") for word in ("--job", name)]
    commands = (options, table), (["--engine", "embedded"], local_result.table)
    on_server, on_this_machine = (
        analyze(server.python, *engine, *jobs_options, "--format", "json", path) for engine, path in commands
    )
    assert (on_server.returncode, on_server.stderr) == (0, "")
    assert on_server.stdout == on_this_machine.stdout
    assert on_server.stdout.count("\n") > 50


def test_filters_and_times_select_the_lines(server: Server, spark: SparkSession, local_result: LocalResult) -> None:
    filter_text, until = "api=Fetch and latency>1ms and not client=o*", "2026-11-19T02:00:20"
    result = analyze(
        server.python, "--master", server.url, "--where", filter_text, "--until", until, "--job", "throughput",
        "--format", "json", local_result.table,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    lines = read_table(spark, str(local_result.table)).where(
        filter_condition(parse(filter_text)) & (F.col("ts") < until)
    )
    expected = jobs.find("throughput").run(lines).collect()
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    names = ("by", "value", "requests", "responses", "response_max_bytes")
    assert [[row[name] for name in names] for row in rows] == [[row[name] for name in names] for row in expected]
    assert len(rows) > 3


def test_connection_errors_are_reported_in_one_sentence(server: Server, inputs: Path) -> None:
    messages = {
        (server.url, str(inputs)): "run kproxy analyze convert TRACES --out DIR",
        ("sc://127.0.0.1:1", str(inputs)): "no Spark Connect server at 127.0.0.1:1",
    }
    for (url, path), message in messages.items():
        result = analyze(server.python, "--master", url, path)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert message in result.stderr
