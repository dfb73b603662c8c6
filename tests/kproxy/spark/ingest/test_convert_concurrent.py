"""Concurrent runs of convert share one table, and tables written without a lock can be repaired."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kproxy.cli import main
from kproxy.errors import UserError
from kproxy.spark.ingest import convert as converting
from kproxy.spark.ingest.convert import batches, convert, read_table
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.inputs import find_files
from kproxy.spark.ingest.repair import repair
from kproxy.spark.streaming.lines import follow_lines
from tests.kproxy.spark import sample_fleet
from tests.kproxy.spark.files import trace_bytes, write
from tests.kproxy.spark.sample_lines import request

_LINES = 8000
_DEADLINE_S = 400


def write_trace(folder: Path, number: int) -> Path:
    """Write a trace of 3 lines, whose connection id contains `number`."""
    lines = (request(at=number * 3600 + index, connection_id=f"n-1-{number}", offset=index) for index in range(3))
    return write(folder / f"{number}.jsonl", trace_bytes(*lines) + b"no line\n" * 2)


def convert_new_files(spark: SparkSession, traces: Path, table: Path) -> list[int]:
    """Convert new files; return the number of files in each batch."""
    return [
        len(batch.files) for batch in convert(spark, find_files(spark, [str(traces)]), str(table), CaptureOptions())
    ]


def count_lines(spark: SparkSession, table: Path) -> dict[str, int]:
    """Return the number of lines per connection."""
    rows = read_table(spark, str(table)).groupBy("connection_id").count().collect()
    return {row["connection_id"]: row["count"] for row in rows}


def test_concurrent_converts_write_every_line_once_even_if_one_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    expected = sample_fleet.write(tmp_path / "in", _LINES)
    table = tmp_path / "table"
    command = [sys.executable, "-m", "kproxy", "analyze", "convert", str(tmp_path / "in"), "--out", str(table)]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    logs = [tmp_path / f"{number}.log" for number in range(3)]
    runs = []
    try:
        for log in logs:
            with log.open("wb") as file:
                runs.append(subprocess.Popen(command, stdout=file, stderr=file, env=environment))
        deadline = time.monotonic() + _DEADLINE_S
        # The run that holds the lock writes immediately; the other runs may still be starting.
        while not (table / "_lock").exists() or not (holders := _lock_holders(table / "_lock", runs)):
            assert time.monotonic() < deadline, [log.read_text() for log in logs]
            assert all(run.poll() is None for run in runs), [log.read_text() for log in logs]
            time.sleep(0.01)
        [killed_run] = holders
        killed_run.send_signal(signal.SIGKILL)
        other_runs = [run for run in runs if run is not killed_run]
        assert [run.wait(_DEADLINE_S) for run in other_runs] == [0, 0], [log.read_text() for log in logs]
    finally:
        for run in runs:
            run.kill()
            run.wait()
    texts = [log.read_text() for log, run in zip(logs, runs, strict=True) if run is not killed_run]
    reports = sorted(re.sub(r"^waiting: .*\n", "", text) for text in texts)
    file_count = len(list((tmp_path / "in").rglob("*.jsonl")))
    assert reports == [
        f"0 of {file_count} files were new: 0 lines added to {table}\n",
        f"{file_count} of {file_count} files were new: {expected} lines added to {table}\n",
    ]
    assert read_table(spark, str(table)).count() == expected
    assert [batch.number for batch in batches(spark, str(table)) or ()] == [1]


def _lock_holders(lock: Path, runs: Sequence[subprocess.Popen[bytes]]) -> list[subprocess.Popen[bytes]]:
    """Return the runs whose Java process holds a lock on the file, according to the kernel."""
    inode = f":{lock.stat().st_ino} "
    locks = [line for line in Path("/proc/locks").read_text().splitlines() if inode in line and "->" not in line]
    pids = {int(line.split()[4]) for line in locks}
    return [run for run in runs if any(run.pid in _ancestors(pid) for pid in pids)]


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_second_run_waits_and_adds_only_new_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, table = tmp_path / "in", tmp_path / "table"
    write_trace(traces, 0), write_trace(traces, 1)
    files = find_files(spark, [str(traces)])
    with _hold_lock(tmp_path / "table" / "_lock") as release:
        waits: list[str] = []

        def release_and_convert() -> None:
            waits.append("waiting")
            release()
            convert_new_files(spark, traces, tmp_path / "other")
            for name in ("batch=1", "_files"):
                shutil.copytree(tmp_path / "other" / name, table / name)

        assert convert(spark, files, str(table), CaptureOptions(), on_wait=release_and_convert) == []
    assert waits == ["waiting"]
    assert count_lines(spark, table) == {"n-1-0": 3, "n-1-1": 3}


@contextmanager
def _hold_lock(lock: Path) -> Iterator[object]:
    """Start a process that holds a lock, and yield a function that kills it."""
    lock.parent.mkdir(parents=True)
    script = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.kill
        finally:
            process.kill()


@pytest.fixture
def damaged_table(spark: SparkSession, tmp_path: Path) -> Path:
    """Return a table after two runs without a lock, whose batch 2 contains the rows and records of both runs."""
    table = tmp_path / "table"
    write_trace(tmp_path / "in", 0)
    convert_new_files(spark, tmp_path / "in", table)
    for number in (1, 2):
        write_trace(tmp_path / "in", number)
    shutil.copytree(table, tmp_path / "other")
    for converted_table in (table, tmp_path / "other"):
        assert convert_new_files(spark, tmp_path / "in", converted_table) == [2]
    for name in ("batch=2", "_files/batch=2"):
        shutil.copytree(tmp_path / "other" / name, table / name, dirs_exist_ok=True)
    return table


def test_table_with_duplicate_lines_must_be_repaired(
    spark: SparkSession,
    tmp_path: Path,
    damaged_table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    error = (
        f"kproxy: {damaged_table} has duplicate lines, because two runs of convert wrote to it at once: "
        f"run kproxy analyze convert --repair --out {damaged_table}\n"
    )
    traces = str(tmp_path / "in")

    def run(*args: str) -> tuple[int, str]:
        capfd.readouterr()
        return main(["analyze", "--engine", "spark", *args]), capfd.readouterr().err

    assert run("--job", "latency", str(damaged_table)) == (2, error)
    assert run("convert", traces, "--out", str(damaged_table)) == (2, error)
    record = next((damaged_table / "_files" / "batch=2").glob("*.json"))
    record.unlink()  # now the record is valid, but the table contains the rows twice
    for read_lines in (
        lambda: read_table(spark, str(damaged_table)),
        lambda: follow_lines(spark, [str(damaged_table)]),
    ):
        with pytest.raises(UserError, match="has duplicate lines"):
            read_lines()
    assert run("convert", "--repair", "--out", str(damaged_table)) == (
        0,
        f"6 lines were removed from 1 batches of {damaged_table}\n",
    )
    assert count_lines(spark, damaged_table) == {"n-1-0": 3, "n-1-1": 3, "n-1-2": 3}
    assert [(batch.lines, len(batch.files)) for batch in batches(spark, str(damaged_table)) or ()] == [(3, 1), (6, 2)]
    assert run("convert", traces, "--out", str(damaged_table)) == (
        0,
        f"0 of 3 files were new: 0 lines added to {damaged_table}\n",
    )
    assert run("convert", "--repair", "--out", str(damaged_table)) == (0, f"{damaged_table} has no duplicate lines\n")


def test_repair_rereads_files_of_a_batch_that_lost_lines(
    spark: SparkSession, tmp_path: Path, damaged_table: Path
) -> None:
    for path in (damaged_table / "batch=2").glob("date=*/hour=07/*.parquet"):
        path.unlink()
    shutil.copytree(damaged_table, tmp_path / "elsewhere")
    [repaired] = repair(spark, str(damaged_table))
    assert (repaired.lost, [Path(uri).name for uri in repaired.again]) == (True, ["1.jsonl", "2.jsonl"])
    assert count_lines(spark, damaged_table) == {"n-1-0": 3}
    assert convert_new_files(spark, tmp_path / "in", damaged_table) == [2]
    assert count_lines(spark, damaged_table) == {"n-1-0": 3, "n-1-1": 3, "n-1-2": 3}
    shutil.rmtree(tmp_path / "in")
    [repaired] = repair(spark, str(tmp_path / "elsewhere"))
    assert (repaired.lost, repaired.again) == (True, [])
    assert count_lines(spark, tmp_path / "elsewhere") == {"n-1-0": 3, "n-1-1": 3}


def test_runs_without_a_lock_write_separate_batches_and_count_a_file_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on an object store, the second run does not see the files of the first run."""
    traces, table = tmp_path / "in", tmp_path / "table"
    monkeypatch.setattr("kproxy.spark.ingest.locks.local_folder", lambda *_: None)
    monkeypatch.setattr(converting, "is_one_machine", lambda _: False)
    write_trace(traces, 0), write_trace(traces, 1)
    assert convert_new_files(spark, traces, table) == [2]
    traces.joinpath("0.jsonl").rename(tmp_path / "0.jsonl")
    write_trace(traces, 2)
    with monkeypatch.context() as patch:
        patch.setattr(converting, "batches", lambda *_: None)
        assert convert_new_files(spark, traces, table) == [2]
    expected = {"n-1-0": 3, "n-1-1": 3, "n-1-2": 3}
    numbers = {batch.number for batch in batches(spark, str(table)) or ()}
    assert len(numbers) == 2
    assert count_lines(spark, table) == expected
    [repaired] = repair(spark, str(table))
    assert (repaired.removed, repaired.lost) == (3, False)
    assert count_lines(spark, table) == expected
    assert repair(spark, str(table)) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("convert", "x", "--repair", "--out", "y"), "usage: kproxy analyze convert --repair --out DIR"),
        (("convert", "--repair"), "usage: kproxy analyze convert --repair --out DIR"),
        (("x", "--repair"), "--repair works only with convert"),
    ],
)
def test_repair_accepts_only_an_output_directory(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", *args]) == 2
    assert message in capsys.readouterr().err


def test_repair_rejects_a_directory_without_a_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a table of traces"):
        repair(spark, str(tmp_path))
