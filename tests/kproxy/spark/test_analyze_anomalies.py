"""Options of `kproxy analyze` for the table of anomalies choose the compared days and the time zone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from kproxy.cli import main
from kproxy.spark.session.embedded_engine import EmbeddedEngine
from kproxy.trace.lines import Line
from tests.kproxy.spark.conftest import ENGINE
from tests.kproxy.spark.files import trace_bytes, write
from tests.kproxy.spark.sample_lines import BEGIN_NS, request

BEGIN = datetime.fromtimestamp(BEGIN_NS / 1e9, UTC)
DAY = timedelta(days=1)
Run = Callable[..., list[dict[str, Any]]]


def requests_in_hour(hour: datetime, count: int) -> list[Line]:
    """Return `count` requests in an hour."""
    at = (hour - BEGIN).total_seconds()
    return [request(at=at + 3600 * index / count) for index in range(count)]


def timestamp_text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


@pytest.fixture
def run(spark: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command in this process and returns its rows."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setattr(EmbeddedEngine, "connect", lambda _: spark)

    def rows(*args: object) -> list[dict[str, Any]]:
        capfd.readouterr()
        status = main(["analyze", "--engine", ENGINE, "--format", "json", *map(str, args)])
        out, err = capfd.readouterr()
        assert (status, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return rows


def test_history_is_used_for_comparison_only(run: Run, tmp_path: Path) -> None:
    # The fourth day is as unusual as the last one, but is before the requested period.
    counts = [20, 20, 20, 200, 20, 20, 200]
    lines = [line for day, count in enumerate(counts) for line in requests_in_hour(BEGIN + day * DAY, count)]
    trace = write(tmp_path / "x.jsonl", trace_bytes(*lines))
    last_day = BEGIN + 6 * DAY
    args = (trace, "--job", "anomalies", "--job", "throughput", "--since", timestamp_text(last_day))
    without_history, with_history = run(*args), run(*args, "--history", "6")
    assert {row["since"] for row in with_history if row["job"] == "anomalies"} == {timestamp_text(last_day)}
    assert [row for row in without_history if row["job"] == "anomalies"] == []
    assert [row for row in with_history if row["job"] == "throughput"] == without_history
    assert {row["requests"] for row in without_history} == {200}
    unusual_hours = {row["since"] for row in run(trace, "--job", "anomalies")}
    assert timestamp_text(BEGIN + 3 * DAY) in unusual_hours


def test_history_before_the_epoch_is_empty(run: Run, tmp_path: Path) -> None:
    trace = write(tmp_path / "x.jsonl", trace_bytes(*requests_in_hour(datetime(2026, 10, 24, tzinfo=UTC), 20)))
    for since in ("0005-01-01", f"{'9' * 18}m"):
        assert run(trace, "--job", "anomalies", "--since", since, "--history", "9999") == []


def test_time_zone_changes_the_compared_hours(run: Run, tmp_path: Path) -> None:
    """Clocks in New York were set back on November 1, so the busy hour is 14:00 UTC before and 15:00 UTC after."""
    zone = ZoneInfo("America/New_York")
    hours = [datetime(2026, 10, 24, tzinfo=UTC) + day * DAY + timedelta(hours=hour)
             for day in range(14) for hour in (13, 14, 15)]  # fmt: skip
    lines = [line for hour in hours for line in requests_in_hour(hour, 200 if hour.astimezone(zone).hour == 10 else 20)]
    trace = write(tmp_path / "x.jsonl", trace_bytes(*lines))
    assert run(trace, "--job", "anomalies")
    assert run(trace, "--job", "anomalies", "--time-zone", "America/New_York") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--history", "6"), "--history needs --since: it adds days before it"),
        (("--time-zone", "Nowhere/Land"), "unknown time zone Nowhere/Land: use a name such as Europe/Berlin"),
        (("--since", "2026-11-21", "--history", "0"), "use 1 or more"),
    ],
)
def test_invalid_options_are_rejected(
    options: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:  # raised by argparse, or here with the status that main returns
        sys.exit(main(["analyze", "trace", "--job", "anomalies", *options]))
    assert ended.value.code == 2
    assert message in capfd.readouterr().err
