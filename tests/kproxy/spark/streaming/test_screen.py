"""The terminal output of streaming queries, tested without Spark."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row

from kproxy.spark.ingest.hours import hour_of, next_hour
from kproxy.spark.streaming.events import MicroBatch, QueryRows
from kproxy.spark.streaming.queries import Span
from kproxy.spark.streaming.screen import Screen
from kproxy.spark.streaming.warnings import StreamWarnings

SPAN = Span(window=50_000_000, step=10_000_000)
BEGIN = datetime(2026, 11, 21, 5, tzinfo=UTC)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def spark_time(seconds: float) -> datetime:
    """Return a time as Spark returns it: naive, in the time zone of this process."""
    return (BEGIN + timedelta(seconds=seconds)).astimezone().replace(tzinfo=None)


def latency(start: float, api: str = "Fetch", **columns: Any) -> Row:
    times = {"p50_us": 100.0, "p90_us": 200.0, "p99_us": 2100.0, "max_us": 30_500_000}
    return Row(
        window_start=spark_time(start), window_end=spark_time(start + 50), api=api, per_s=4.0, **(times | columns)
    )


def errors(start: float, client: str = "shop", responses: int = 5) -> Row:
    columns = {"client": client, "error": "NOT_LEADER", "code": 6, "responses": responses, "share": 0.25}
    return Row(window_start=spark_time(start), api="Fetch", **columns)


def finding(code: str, severity: str, **columns: Any) -> Row:
    fields = {"client": "shop", "broker": "b:1", "connection_id": "n-1", "direction": "response", "offset": 7}
    return Row(
        at=spark_time(1), severity=severity, code=code, name="rule", message=f"{code} is wrong", **(fields | columns)
    )


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "120"), ("LINES", "30"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    return Terminal()


def render(terminal: Terminal, *events: QueryRows | MicroBatch, rows: int = 20) -> str:
    with Screen(terminal, "tr\x1baces", ["latency", "errors", "findings"], SPAN, rows) as screen:
        for event in events:
            screen.handle(event)
        length_before = len(terminal.getvalue())
        screen.refresh()
        return strip_escapes(terminal.getvalue()[length_before:])


def strip_escapes(text: str) -> str:
    """Remove cursor movements and colours."""
    return re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", text)


def batch_until(seconds: float) -> MicroBatch:
    return MicroBatch("latency", 1, 0, None, spark_time(seconds), 0)


def test_fullest_window_that_contains_the_newest_line_is_shown(terminal: Terminal) -> None:
    windows = [latency(start, max_us=1000 + start) for start in range(0, 120, 10)]
    text = render(
        terminal,
        batch_until(115),
        QueryRows("latency", windows[:6]),
        QueryRows("latency", windows[6:]),
        QueryRows("errors", []),
    )
    assert "tr\\x1baces  as of 05:01:55 UTC" in text
    assert "1.1 ms" in text  # from the window that starts at 70; those from 70 to 110 contain the newest line
    assert "1.2 ms" not in text
    assert text.count("2.1 ms") == 2  # p99 of this window and the previous one
    assert "no errors, last 50 s" in text


def test_rows_are_sorted_and_rows_that_do_not_fit_are_counted(terminal: Terminal) -> None:
    apis = [latency(-40, f"Api{number:02}", p99_us=float(number)) for number in range(30)]
    client_errors = [errors(-40, f"c{number:02}", number) for number in range(30)]
    text = render(
        terminal,
        batch_until(1),
        QueryRows("latency", [*apis, latency(0)]),
        QueryRows("errors", [*client_errors, errors(0)]),
    )
    lines = text.splitlines()
    assert len(lines) <= 32
    assert text.index("Api29") < text.index("Api28")
    assert text.index("c29") < text.index("c28")
    assert "errors, last 50 s, and 21 more" in text


def test_findings_are_printed_by_severity_and_hostile_text_is_escaped(terminal: Terminal) -> None:
    with Screen(terminal, "x", ["findings", "clients"], SPAN, 2) as screen:
        nobody = finding("C016", "warning", client=None, broker=None, direction=None)
        hostile = finding("S001", "error", client="a\x1b[2J[b]")
        screen.handle(QueryRows("findings", [finding("L001", "info"), hostile, nobody]))
        screen.handle(QueryRows("clients", [
            Row(at=spark_time(2), client="shop", broker="b:1", software_name="java", software_version="3.9", api=None,
                api_version=None, refused_from=None),
            Row(at=spark_time(3), client="old", broker="b:1", software_name=None, software_version=None, api="Fetch",
                api_version=2, refused_from="4.0"),
        ]))  # fmt: skip
    text = strip_escapes(terminal.getvalue())
    assert "05:00:01  error    S001 rule  a\\x1b[2J[b] > b:1  S001 is wrong  (n-1 response, byte 7)" in text
    assert "05:00:01  warning  C016 rule  C016 is wrong  (n-1, byte 7)" in text
    assert "L001" not in text
    assert "and 1 more new findings; --format json lists all" in text
    assert text.index("old > b:1  uses Fetch v2, which Kafka 4.0 and later refuse") < text.index(
        "client   shop > b:1  java 3.9"
    )


def test_screen_says_that_it_waits_before_the_first_line(terminal: Terminal) -> None:
    text = render(terminal)
    assert "waiting for lines" in text
    assert "errors" not in text


def test_skipped_lines_are_reported_once_and_in_total(capsys: pytest.CaptureFixture[str]) -> None:
    warnings = StreamWarnings("latency", "30s")
    for batch in (
        MicroBatch("latency", 5, 2, "f: a\x1bb", None, 3), MicroBatch("errors", 5, 2, "f: a\x1bb", None, 0),
        MicroBatch("latency", 5, 1, "f: c", None, 1), MicroBatch("errors", 5, 1, "f: c", None, 1),
    ):  # fmt: skip
        warnings.handle(batch)
    warnings.close()
    assert capsys.readouterr().err.splitlines() == [
        "kproxy: 2 lines could not be read and were skipped, as in f: a\\x1bb",
        "kproxy: at least 3 lines arrived too late for latency and were skipped; the limit is --late 30s",
        "kproxy: at least 1 line arrived too late for errors and were skipped; the limit is --late 30s",
        "kproxy: 3 lines could not be read in total",
        "kproxy: at least 4 lines arrived too late for latency and were skipped in total",
    ]


def test_next_hour_selects_traces_one_hour_at_a_time() -> None:
    first, second = "a/date=2026-11-21/hour=05/x", "b/date=2026-11-21/hour=06/y"
    assert hour_of(f"/{first}") == BEGIN
    assert (hour_of("date=2026-13-21/hour=05/x"), hour_of("x/y")) == (None, None)
    sizes = {second: 9, first: 7, "plain": 3}
    assert next_hour({}, sizes) == {"plain": 3}
    assert next_hour({"plain": 3}, sizes) == {"plain": 3, first: 7}
    assert next_hour({"plain": 3, first: 7}, sizes) == sizes
    assert next_hour({"plain": 3, first: 5, second: 9, "gone": 1}, sizes) == sizes
    assert next_hour(sizes, sizes) == dict(sorted(sizes.items()))
