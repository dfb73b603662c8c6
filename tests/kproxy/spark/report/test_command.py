from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kproxy.cli.analyze import tables
from kproxy.errors import UserError
from kproxy.spark import jobs
from kproxy.spark.ingest.lines import Lines
from tests.kproxy.cli.conftest import Run, kproxy
from tests.kproxy.html.pages import ParsedPage
from tests.kproxy.spark.sample_lines import request, response, table

__all__ = ["kproxy"]


def test_page_is_written(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "names", lambda: ["latency"])
    page = tmp_path / "report.html"
    lines = table(spark, request(), response(latency_us=70_000))
    tables._write_report(spark, Lines(lines, []), {}, Namespace(html=str(page), traces=["/home/me/kproxy-trace/"]))
    data = ParsedPage(page.read_text()).data
    assert data["sources"] == ["kproxy-trace"]
    assert data["facts"]["responses"] == 1
    [latency] = data["tables"]
    assert latency["rows"][0] == ["api", "Fetch", None, 1, 70_000, 70_000, 70_000, 70_000, 70_000]
    with pytest.raises(UserError, match="Is a directory"):
        tables._write_report(spark, Lines(lines, []), {}, Namespace(html=str(tmp_path), traces=[]))


def test_unwritable_page_is_reported_before_traces_are_read(kproxy: Run, tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "report.html"
    result = kproxy("analyze", "--html", nowhere, tmp_path)
    assert (result.returncode, result.stderr) == (2, f"kproxy: --html {nowhere}: no such directory\n")
    result = kproxy("analyze", "--html", tmp_path / "report.html", "--job", "latency", tmp_path)
    assert result.returncode == 2
    assert "--html always covers all tables" in result.stderr
