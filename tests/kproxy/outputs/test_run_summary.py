"""A summary is shown at the end of a run."""

import io
import pickle

import pytest
from rich.console import Console

from kproxy.outputs.console import stderr_console
from kproxy.outputs.run_summary import RunSummary
from kproxy.trace.lines import (
    CloseLine,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    OpenLine,
    RepeatEntry,
    RequestLine,
    ResponseLine,
)
from kproxy.verdict.causes import Causes

COMMON = {"v": 1, "ts": "2026-11-21T03:41:00.123456Z", "connection_id": "web-1-77-12"}
ENDPOINTS = {"client": "10.0.0.1:5", "server": "10.0.0.2:9092"}


def frame(kind: type, api: str = "Fetch", **more: object) -> Line:
    return kind(**COMMON, **ENDPOINTS, api=api, api_version=4, size=100, offset=0, **more)


def summary_text(*lines: Line) -> str:
    summary = RunSummary(Causes())
    for line in lines:
        summary.add(line)
    file = io.StringIO()
    summary.show(Console(file=file, width=120))
    return file.getvalue()


def test_frames_are_counted_by_api_with_latencies() -> None:
    lines = [frame(RequestLine, client_id="shop") for _ in range(3)] + [frame(ResponseLine, latency_us=5000)] * 2
    text = summary_text(OpenLine(**COMMON, **ENDPOINTS), *lines)
    assert "1 connection, 5 frames" in text
    row = next(line for line in text.splitlines() if line.startswith("Fetch"))
    assert row.split()[:4] == ["Fetch", "4", "3", "2"]
    assert "5.0 ms" in row or "4.9 ms" in row
    assert "clients: shop" in text


def test_connection_resumed_after_a_restart_counts_once() -> None:
    open_line, close_line = OpenLine(**COMMON, **ENDPOINTS), CloseLine(**COMMON, **ENDPOINTS)
    assert "1 connection," in summary_text(open_line, OpenLine(**COMMON, **ENDPOINTS, midstream=True), close_line)
    assert "2 connections," in summary_text(open_line, close_line, open_line, close_line)


def test_findings_and_gaps_are_counted() -> None:
    finding = FindingEntry("L001", "trailing-bytes", "error", "x")
    gap = GapLine(**COMMON, direction="request", bytes=2000, frames=3, reason="behind")
    text = summary_text(frame(RequestLine, findings=[finding]), frame(RequestLine, findings=[finding]), gap)
    assert "error: L001 trailing-bytes: x  (2 times on 1 connection)" in text
    assert "2.0 KB, 3 frames, not inspected" in text


def test_unreported_repeats_are_counted() -> None:
    finding = FindingEntry("L001", "trailing-bytes", "error", "x")
    close = CloseLine(**COMMON, **ENDPOINTS, repeated=[RepeatEntry("L001", "trailing-bytes", 40)])
    assert "L001 trailing-bytes: x  (41 times on 1 connection)" in summary_text(
        frame(RequestLine, findings=[finding]), close
    )


def test_verdict_shows_hints_consequences_and_ongoing_findings() -> None:
    unanswered = FindingLine(
        **COMMON, code="C004", name="never-answered", severity="error", message="no answer", hint="answer it",
        direction="request", offset=0,
    )  # fmt: skip
    waiting = FindingLine(
        **COMMON,
        code="C020",
        name="request-waits",
        severity="warning",
        message="it waits",
        direction="request",
        offset=0,
    )
    info = FindingEntry("V003", "old", "info", "x")
    lines = [frame(RequestLine, findings=[info]), waiting, unanswered]
    assert summary_text(*lines).splitlines()[3:] == [
        "error: C004 never-answered: no answer  (once, it lasts)",
        "  hint: answer it",
        "  therefore also: C020 request-waits",
        "V003 old 1x",
    ]
    response_line = frame(ResponseLine, request_offset=0)
    assert "never-answered: no answer  (once)" in summary_text(*lines, response_line)


def test_number_of_names_kept_from_the_network_is_limited() -> None:
    summary = RunSummary(Causes())
    for number in range(3000):
        summary.add(frame(RequestLine, api=f"API {number}", client_id=f"c{number}"))
    assert len(summary._apis) <= 501
    assert len(summary._clients) <= 1000


def test_headings_are_not_truncated_in_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    summary = RunSummary(Causes())
    for version in (0, 2, 4, 6, 8, 10):
        summary.add(
            RequestLine(**COMMON, **ENDPOINTS, api="ConsumerGroupHeartbeat", api_version=version, size=10**9, offset=0)
        )
        summary.add(ResponseLine(**COMMON, **ENDPOINTS, api="ConsumerGroupHeartbeat", api_version=version, size=9,
                                 offset=0, latency_us=10**8))  # fmt: skip
    finding = FindingEntry("L001", "x" * 200, "error", "x")
    summary.add(frame(RequestLine, findings=[finding]))
    summary.show(stderr_console())
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].split() == ["API", "versions", "requests", "responses", "errors", "p50", "p99", "bytes"]
    assert lines[-1] == f"error: L001 {'x' * 200}: x  (once)"
    monkeypatch.setenv("COLUMNS", "40")
    assert stderr_console().width == 40


def test_summaries_of_workers_are_merged() -> None:
    summaries = [RunSummary(Causes()), RunSummary()]
    for summary, latency_us in zip(summaries, (1000, 3000), strict=True):
        summary.add(frame(RequestLine, client_id="shop"))
        summary.add(frame(ResponseLine, latency_us=latency_us))
    summaries[0].merge(pickle.loads(pickle.dumps(summaries[1])))
    file = io.StringIO()
    summaries[0].show(Console(file=file, width=120))
    row = next(line for line in file.getvalue().splitlines() if line.startswith("Fetch"))
    assert row.split() == ["Fetch", "4", "2", "2", "1.0", "ms", "3.0", "ms", "400", "B"]
