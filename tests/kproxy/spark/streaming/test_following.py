"""Complete runs over growing traces match the jobs, even with late or torn lines and after a SIGKILL."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kproxy.cli import main
from kproxy.cli.analyze import follow
from kproxy.spark.ingest.convert import convert, with_dates
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.files import read_files
from kproxy.spark.ingest.inputs import find_files
from kproxy.spark.jobs import find as job
from kproxy.spark.streaming.events import MicroBatch, QueryRows
from kproxy.spark.streaming.execution import RunningQueries, TableFiles
from kproxy.spark.streaming.queries import Span
from kproxy.trace.lines import ErrorEntry, Line
from tests.kproxy.spark.files import write
from tests.kproxy.spark.sample_lines import BEGIN_NS, finding_entry, request, response
from tests.kproxy.spark.streaming.traces import (
    POLL_S,
    SECOND,
    TENS,
    QueryResults,
    Traces,
    build_query,
    wait_until_processed,
)

ERROR = [ErrorEntry("a", 3, "UNKNOWN_TOPIC_OR_PARTITION")]


def traffic(second: int) -> list[Line]:
    """Return the lines of one second: requests and responses, an error, a finding and a client."""
    client_request = request(
        "ApiVersions", at=second, client_id=f"c{second % 7}", software_name="lib", software_version="1"
    )
    findings = [finding_entry("L001")] if second % 5 == 0 else []
    return [
        client_request,
        request("Fetch", at=second + 0.1),
        response("Fetch", at=second + 0.2, latency_us=100 + second, findings=findings),
        response("Metadata", at=second + 0.3, latency_us=second, errors=ERROR * (second % 3 == 0)),
    ]


def rows_of_query(events: list[QueryRows | MicroBatch], query: str) -> list[dict[str, Any]]:
    return [
        row.asDict() for event in events if isinstance(event, QueryRows) and event.query == query for row in event.rows
    ]


def drain(running: RunningQueries) -> list[QueryRows | MicroBatch]:
    """Return the results for all lines that exist now."""
    for query in running.queries.values():
        wait_until_processed(query)
    events = []
    while (event := running.next_event(0)) is not None:
        events.append(event)
    return events


def test_queries_over_a_growing_trace_match_the_jobs(spark: SparkSession, tmp_path: Path) -> None:
    """The trace has several files, which are renamed, and spans two hours; the results are tables and rows."""
    folder, out = tmp_path / "traces", tmp_path / "out"
    traces = Traces(folder, max_bytes=20_000)
    events: list[QueryRows | MicroBatch] = []
    with RunningQueries(spark, every=POLL_S) as running:
        running.to_rows(build_query(spark, folder, "latency", TENS), "latency")
        for name, file_format in (("errors", "parquet"), ("findings", "parquet"), ("clients", "json")):
            drain(running)  # start one query at a time, for small machines
            running.to_files(build_query(spark, folder, name, TENS), name, TableFiles(str(out), file_format))
        for second in range(3570, 3640):
            traces.write(*traffic(second), at=second)
            if second == 3599:
                events += drain(running)
        traces.write(request("Heartbeat", at=4000), at=4000)  # this closes the earlier windows
        traces.close(at=4000)
        events += drain(running)
    assert len(list(folder.rglob("*.jsonl"))) > 3
    all_lines = (
        with_dates(read_files(spark, find_files(spark, [str(folder)]), CaptureOptions()))
        .where("api <> 'Heartbeat'")
        .cache()
    )
    expected = {row["api"]: row for row in job("latency").run(all_lines).where("by = 'api'").collect()}
    latency = rows_of_query(events, "latency")
    assert len({row["window_start"] for row in latency}) == 7
    for api, row in expected.items():
        windows = [window for window in latency if window["api"] == api]
        assert sum(window["responses"] for window in windows) == row["responses"]
        assert max(window["max_us"] for window in windows) == row["max_us"]
    [error] = job("errors").run(all_lines).where("by = 'client'").collect()
    rows = spark.read.parquet(f"{out}/errors").collect()
    assert sum(row["responses"] for row in rows) == error["responses"]
    assert {(row["client"], row["error"], row["code"]) for row in rows} == {("app", error["error"], 3)}
    assert {str(row["date"]) for row in rows} == {"2026-11-21"}
    counted = [(row["code"], row["client"], row["broker"]) for row in job("findings").run(all_lines).collect()]
    results = [(row["code"], row["client"], row["broker"]) for row in spark.read.parquet(f"{out}/findings").collect()]
    assert results == counted == [("L001", "app", "10.0.0.1:9092")]
    software = spark.read.json(f"{out}/clients").select("client", "software_name").collect()
    assert sorted(map(tuple, software)) == [(f"c{number}", "lib") for number in range(7)]
    all_lines.unpersist()


def test_late_and_unreadable_lines_are_counted_and_timely_ones_awaited(spark: SparkSession, tmp_path: Path) -> None:
    traces, slow_traces = Traces(tmp_path), Traces(tmp_path, node="slow")
    with RunningQueries(spark, every=POLL_S) as running:
        running.to_rows(build_query(spark, tmp_path, "latency", TENS), "latency")
        traces.write(request(at=1), request(at=12), at=12)
        assert rows_of_query(drain(running), "latency") == []
        slow_traces.write(request(at=2), at=12)  # 10 s late, but the window is open until 15
        traces.write(request(at=16), at=16)
        [row] = rows_of_query(drain(running), "latency")
        assert row["requests"] == 2
        slow_traces.write(request("Produce", at=3), request("Produce", at=4), at=16)
        write(tmp_path / "date=2026-11-21" / "hour=05" / "bad.jsonl", b"no line\n{}\n")
        batches = [event for event in drain(running) if isinstance(event, MicroBatch)]
        assert sum(batch.late for batch in batches) == 1  # two lines, but they are of one window and API
        assert (sum(batch.lines for batch in batches), sum(batch.corrupt for batch in batches)) == (2, 2)
        [example] = filter(None, (batch.example for batch in batches))
        assert "bad.jsonl: " in example


def test_line_from_the_future_does_not_make_others_late(spark: SparkSession, tmp_path: Path) -> None:
    """The line comes from a machine whose clock is ten years ahead."""
    now = (time.time_ns() - BEGIN_NS) // 1_000_000_000 // 10 * 10 - 40
    good_traces, broken_traces = Traces(tmp_path), Traces(tmp_path, node="broken")
    results = QueryResults(spark, tmp_path, "latency", Span(10 * SECOND, 10 * SECOND, 3600 * SECOND))
    good_traces.write(request("Fetch", at=now), at=now)
    broken_traces.write(request("Produce", at=now + 315_360_000), at=now)
    assert results.rows() == []
    good_traces.write(*(request("Fetch", at=now + second) for second in (1, 2, 11)), at=now)
    assert results.rows() == []
    progress = [update for update in results.query.recentProgress if update.numInputRows]
    assert sum(update.observedMetrics["counted"]["ahead"] for update in progress) == 1
    assert not any(state.numRowsDroppedByWatermark for update in progress for state in update.stateOperators)


def test_update_mode_updates_windows_as_lines_arrive(spark: SparkSession, tmp_path: Path) -> None:
    traces = Traces(tmp_path)
    results = QueryResults(spark, tmp_path, "latency", Span(10 * SECOND, 5 * SECOND, SECOND), mode="update")
    traces.write(request(at=1), at=1)
    assert [row["requests"] for row in results.rows()] == [1, 1]
    traces.write(request(at=2), at=2)
    assert [row["requests"] for row in results.rows()] == [1, 1, 2, 2]


def test_old_traces_are_read_hour_by_hour_without_late_lines(spark: SparkSession, tmp_path: Path) -> None:
    for node in ("a", "b"):
        traces = Traces(tmp_path, node=node)
        for hour in range(3):
            traces.write(*(request(at=hour * 3600 + second) for second in range(5)), at=hour * 3600)
        traces.close(at=2 * 3600)
    with RunningQueries(spark, every=POLL_S) as running:
        span = Span(3600 * SECOND, 3600 * SECOND, SECOND)
        running.to_rows(build_query(spark, tmp_path, "latency", span), "latency")
        events = drain(running)
    assert [row["requests"] for row in rows_of_query(events, "latency")] == [10, 10]
    lines_per_batch = [event.lines for event in events if isinstance(event, MicroBatch) and event.lines]
    assert lines_per_batch == [10, 10, 10]
    assert sum(event.late for event in events if isinstance(event, MicroBatch)) == 0


def test_converted_table_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "table"

    def convert_second(second: int) -> None:
        path = write(tmp_path / "in" / f"{second}.jsonl", b"")
        Traces(path.parent / str(second)).write(*traffic(second), at=second)
        unfinished_path = next((path.parent / str(second)).rglob(".*.part"))
        unfinished_path.rename(path)
        convert(spark, find_files(spark, [str(path)]), str(table), CaptureOptions())

    convert_second(1)
    results = QueryResults(spark, table, "clients", Span())
    assert [row["client"] for row in results.rows()] == ["c1"]
    convert_second(2)
    assert [row["client"] for row in results.rows()] == ["c1", "c2"]


@pytest.fixture
def analyze(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Return a function that runs a command in the tests' session; the command ends by itself only on an error."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)

    def run(*args: object) -> tuple[int, str, str]:
        capfd.readouterr()
        status = main(["analyze", "--engine", "spark", "--follow", *map(str, args)])
        return status, *capfd.readouterr()

    return run


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["/nothing/here"], "/nothing/here: no such directory"),
        ([__file__], "--follow needs a directory of traces"),
        (
            ["x", "--job", "rebalances"],
            "--follow does not support --job rebalances; use clients, errors, findings, latency",
        ),
        (["x", "--html", "y.html"], "it cannot be combined with --html"),
        (["x", "--format", "csv"], "CSV needs --out DIR"),
        (["x", "--format", "table"], "--follow prints tables only on a terminal"),
        (["x", "--window", "5ms"], "invalid --window 5ms: use 1s or more"),
        (["x", "--window", "long"], "--window long: e.g. 50ms"),
        (["x", "--late", "3h"], "--late 3h: use us, µs, ms, s, m"),
    ],
)
def test_invalid_usage_is_reported_in_one_sentence(analyze: Callable[..., Any], args: list[str], message: str) -> None:
    status, out, err = analyze(*args)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def run_before_next_event(monkeypatch: pytest.MonkeyPatch, action: Callable[[RunningQueries], object]) -> None:
    """Run a function each time the command is about to wait for the next event."""
    original_next_event = RunningQueries.next_event

    def next_event(self: RunningQueries, timeout: float) -> QueryRows | MicroBatch | None:
        action(self)
        return original_next_event(self, timeout)

    monkeypatch.setattr(RunningQueries, "next_event", next_event)


def interrupt_when_done(running: RunningQueries) -> None:
    for query in running.queries.values():
        wait_until_processed(query)
    os.kill(os.getpid(), signal.SIGINT)


def test_json_lines_are_written_until_interrupted(
    analyze: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Traces(tmp_path).write(*traffic(5), at=5)
    write(tmp_path / "bad.jsonl", b"a\x1b[2Jb\n")
    run_before_next_event(monkeypatch, interrupt_when_done)
    monkeypatch.setattr(follow, "_SCREEN_S", POLL_S)
    status, out, err = analyze(tmp_path, "--job", "findings", "--where", "api=Fetch")
    assert (status, err) == (
        0, f"kproxy: 1 line could not be read and were skipped, as in file:{tmp_path}/bad.jsonl: a\\x1b[2Jb\n"
    )  # fmt: skip
    [row] = map(json.loads, out.splitlines())
    assert (row["job"], row["code"], row["client"], row["at"]) == (
        "findings", "L001", "app", "2026-11-21T05:00:05.200000Z"
    )  # fmt: skip


def test_removed_directory_ends_the_run_and_options_must_match_to_resume(
    analyze: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, output_dir = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    with monkeypatch.context() as patched:
        run_before_next_event(patched, lambda _: shutil.rmtree(traces, ignore_errors=True))
        status, _, error_output = analyze(traces, "--job", "clients", "--out", output_dir)
        assert (status, error_output.count("\n"), str(traces) in error_output) == (2, 1, True)
    traces.mkdir()
    status, _, error_output = analyze(traces, "--job", "clients", "--out", output_dir, "--where", "api=Fetch")
    assert status == 2
    assert error_output.startswith(
        f"kproxy: {output_dir}/clients was started as {traces} --window 60.0 s --late 30.0 s --format parquet"
    )


def wait_for(condition: Callable[[], object], *, timeout_s: float = 200) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_sigkill_neither_loses_nor_duplicates_rows(
    spark: SparkSession, analyze: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "traces", tmp_path / "out"
    traces = Traces(folder, max_bytes=5000)
    args = [str(folder), "--out", str(out), "--job", "findings", "--job", "latency", "--window", "1s", "--late", "1s"]
    for second in range(20):
        traces.write(*traffic(second), at=second)
    command = [sys.executable, "-m", "kproxy", "analyze", "--engine", "spark", "--follow", *args]
    with subprocess.Popen(command, start_new_session=True) as process:
        wait_for(lambda: list(out.glob("findings/date=*/*.parquet")) or process.poll() is not None)
        for second in range(20, 40):
            traces.write(*traffic(second), at=second)
        os.killpg(process.pid, signal.SIGKILL)  # this also kills Java
    assert process.returncode == -signal.SIGKILL
    for second in range(40, 60):
        traces.write(*traffic(second), at=second)
    traces.close(at=60)
    run_before_next_event(monkeypatch, interrupt_when_done)
    monkeypatch.setattr(follow, "_FILES_S", POLL_S)
    status, _, err = analyze(*args)
    assert (status, err) == (0, f"incomplete windows are written to {out} when you run --follow on it again\n")
    assert spark.read.parquet(f"{out}/findings").count() == 1
    windows = [row["api"] for row in spark.read.parquet(f"{out}/latency").collect()]
    assert {api: windows.count(api) for api in windows} == dict.fromkeys(("ApiVersions", "Fetch", "Metadata"), 58)
