"""A cluster: a master and a worker on loopback, executors in processes of their own that are sent kproxy as a zip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kproxy.spark.reading.convert import read_table
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


@dataclass(frozen=True)
class Cluster:
    """Its master, the directory of its worker, and the Python of its machines."""

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


def test_two_executors_give_the_tables_of_one_process(
    cluster: Cluster, spark: SparkSession, inputs: Path, local: Local, tmp_path: Path
) -> None:
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.executor.cores": "1",
        "spark.executor.memory": "600m", "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.shuffle.partitions": "2",
        "spark.submit.pyFiles": str(zipped(tmp_path / "kproxy.zip")),
    }  # fmt: skip
    there = ["--master", cluster.master]
    for name, value in settings.items():
        there += ["--conf", f"{name}={value}"]
    table, page, out = tmp_path / local.table.name, tmp_path / "report.html", tmp_path / "out"

    done = analyze(cluster.python, *there, "convert", inputs, "--out", table)
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (0, "", local.said(table))
    assert same_rows(read_table(spark, str(table)), read_table(spark, str(local.table)))

    done = analyze(cluster.python, *there, table, "--html", page, "--job", "findings", "--out", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Opened(page.read_text()).data == local.data
    assert spark.read.parquet(f"{out}/findings").count() == local.rows("findings")

    executors = [each.name for each in cluster.work.glob("app-*/*") if (each / "stderr").exists()]
    assert sorted(executors) == ["0", "0", "1", "1"]  # of each of the two commands


def test_traces_have_to_be_converted_first(cluster: Cluster, inputs: Path) -> None:
    done = analyze(cluster.python, "--master", cluster.master, "--conf", "spark.driver.host=127.0.0.1", inputs)
    assert done.returncode == 2
    assert "run kproxy analyze convert TRACES --out DIR" in done.stderr
