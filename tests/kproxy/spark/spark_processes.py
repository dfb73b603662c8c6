"""Helpers for `test_elsewhere` that run Spark in separate processes, and commands that use it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.ingest.convert import TableBatch, convert, read_table
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.inputs import find_files
from kproxy.spark.session.java import find_java, java_launcher
from tests.kproxy.html.pages import ParsedPage
from tests.kproxy.spark import sample_fleet
from tests.kproxy.spark.files import CAPTURES, REPOSITORY, TRACE_1, write

_LINES = 8000
#: Options for short-lived JVMs. With one compiler, Java reserves only 48 MB for code, too little for all jobs.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


def write_inputs(folder: Path) -> Path:
    """Write plain and compressed traces of a fleet, and captures; return their directory."""
    sample_fleet.write(folder, _LINES)
    write(folder / "a.jsonl.gz", TRACE_1.read_bytes())
    write(folder / "b.jsonl", b"no line\n")
    for capture in CAPTURES.glob("*.pcap.gz"):
        (folder / capture.name).write_bytes(capture.read_bytes())
    return folder


@dataclass(frozen=True)
class LocalResult:
    """The table that this process makes from the inputs, and the data of the embedded engine's report about it."""

    table: Path
    batch: TableBatch
    data: dict[str, Any]

    def convert_output(self, table: Path) -> list[str]:
        """Return the output expected from `convert` for the same inputs."""
        files, lines, corrupt = len(self.batch.files), self.batch.lines, self.batch.corrupt
        example = f"as in {self.batch.example}"
        return [
            f"kproxy: {corrupt} of {lines + corrupt} lines could not be read and were skipped, {example}",
            f"{files} of {files} files were new: {lines} lines added to {table}",
        ]

    def row_count(self, job: str) -> int:
        """Return the number of rows in the table of a job."""
        [job_table] = [table for table in self.data["tables"] if table["name"] == job]
        assert not job_table["more"]
        return len(job_table["rows"])


def analyze_locally(spark: SparkSession, inputs: Path, folder: Path) -> LocalResult:
    """Convert the inputs in this process, and analyze them with the embedded engine, which takes a tenth of the time.

    `test_engines` compares its tables with those of Spark in one process.
    """
    table, page = folder / "table", folder / "report.html"
    [batch] = convert(spark, find_files(spark, [str(inputs)]), str(table), CaptureOptions())
    result = analyze(Path(sys.executable), "--engine", "embedded", table, "--html", page)
    assert (result.returncode, result.stderr) == (0, "")
    return LocalResult(table, batch, ParsedPage(page.read_text()).data)


def convert_elsewhere(
    python: Path, cluster_options: list[str], spark: SparkSession, inputs: Path, local_result: LocalResult, folder: Path
) -> Path:
    """Convert the inputs with options for a cluster; assert that the table has the expected rows, and return it."""
    table = folder / local_result.table.name
    result = analyze(python, *cluster_options, *kproxy_files(folder), "convert", inputs, "--out", table)
    # The status is 2 because one file has an invalid line.
    assert (result.returncode, result.stdout, result.stderr.splitlines()) == (2, "", local_result.convert_output(table))
    assert _same_rows(read_table(spark, str(table)), read_table(spark, str(local_result.table)))
    return table


def kproxy_files(folder: Path) -> list[str]:
    """Write kproxy to a zip file, unless it exists; return the options that send it to the executors."""
    path = folder / "kproxy.zip"
    if not path.exists():
        with zipfile.ZipFile(path, "w") as file:
            for package in ("kproxy", "dissectors"):
                for source in (REPOSITORY / package).rglob("*"):
                    if source.is_file() and source.suffix != ".pyc":
                        file.write(source, source.relative_to(REPOSITORY))
    return ["--conf", f"spark.submit.pyFiles={path}"]


def _same_rows(first: DataFrame, second: DataFrame) -> bool:
    """Return whether two tables have the same rows, in any order."""
    return first.count() == second.count() and first.exceptAll(second).isEmpty()


def python_without_kproxy(folder: Path) -> Path:
    """Create a Python environment with the packages of this one except kproxy, as on the machines of a cluster."""
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    # Directories that are added by .pth files in these packages are omitted.
    package_dirs = [path for path in sys.path if path.endswith("packages")]
    (packages / "more.pth").write_text("\n".join(package_dirs))
    python = folder / "bin" / "python"
    result = subprocess.run(
        [python, "-c", "import msgspec, pyspark\nimport kproxy"], capture_output=True, text=True, check=False, cwd="/"
    )
    assert result.stderr.endswith("No module named 'kproxy'\n"), result.stderr
    return python


@contextmanager
def spark_process(command: list[str], python: Path, pattern: str) -> Iterator[str]:
    """Run a Spark process; yield the text in its log that matches the group in the regular expression `pattern`."""
    home = Path(pyspark.__path__[0])
    with java_launcher(find_java()):
        environment = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": str(python), "SPARK_NO_DAEMONIZE": "1"}
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS}
    with subprocess.Popen(
        [home / "bin" / command[0], *command[1:]], stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True,
        cwd="/", env=environment,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            log = []
            for line in process.stdout:
                log.append(line)
                if match := re.search(pattern, line):
                    break
            else:
                raise AssertionError("".join(log))
            Thread(target=process.stdout.read, daemon=True).start()  # otherwise, it would block on a full pipe
            yield match[1]
        finally:
            process.terminate()


def analyze(python: Path, *args: object) -> subprocess.CompletedProcess[str]:
    """Run the command as a process, with this Python on the executors."""
    return subprocess.run(
        [sys.executable, "-m", "kproxy", "analyze", *map(str, args)], capture_output=True, text=True, check=False,
        timeout=900, env=os.environ | {"PYSPARK_PYTHON": str(python)},
    )  # fmt: skip
