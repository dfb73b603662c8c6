"""The engine of a command is chosen by its options and inputs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from kproxy.cli import main
from kproxy.cli.analyze import engines
from kproxy.cli.analyze.engines import Choice, choose_engine
from kproxy.errors import UserError


@pytest.fixture(autouse=True)
def _no_session_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)


def options(*traces: str, **overrides: Any) -> argparse.Namespace:
    """Return the options of a command line."""
    defaults = dict.fromkeys(("master", "remote", "out", "format", "follow", "repair", "where"))
    return argparse.Namespace(**defaults | {"engine": "auto", "conf": [], "traces": list(traces)} | overrides)


def test_small_inputs_use_the_embedded_engine_if_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "x.jsonl"
    trace.write_bytes(b"x" * 1000)
    monkeypatch.setattr(engines, "is_installed", lambda: True)
    monkeypatch.setattr(engines, "memory_limit", lambda: 1000)
    assert choose_engine(options(str(trace)), converts=False).engine == "embedded"
    trace.write_bytes(b"x" * 1001)
    monkeypatch.setattr(engines, "find_spec", lambda _: object())
    assert choose_engine(options(str(trace)), converts=False) == Choice(
        "spark", "about 0.0 GB of trace lines, more than half of the memory (0.0 GB)"
    )
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    assert choose_engine(options(str(trace)), converts=False).engine == "embedded"
    monkeypatch.setattr(engines, "is_installed", lambda: False)
    with pytest.raises(UserError, match=r"this needs an engine for tables: .*install"):
        choose_engine(options(str(trace)), converts=False)
    monkeypatch.setattr(engines, "find_spec", lambda _: object())
    assert choose_engine(options(str(trace)), converts=False) == Choice("spark", "Sail is not installed")


def test_local_files_are_converted_without_an_engine(tmp_path: Path) -> None:
    assert choose_engine(options("x", out=str(tmp_path)), converts=True) == Choice(None)
    assert choose_engine(options("x", out=str(tmp_path), engine="embedded"), converts=True) == Choice(None)
    assert choose_engine(options("x", out=str(tmp_path), engine="spark"), converts=True) == Choice("spark")


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"conf": ["a=b"]}, "--conf has Spark's settings"),
        ({"follow": True}, "--follow is a stream"),
        ({"repair": True}, "--repair rewrites a table"),
        ({"format": "delta"}, "--format delta"),
        ({"where": "not (api=Fetch or value.id=7)"}, "value.id runs Python in the engine"),
        ({"out": "s3a://bucket/x"}, "s3a://bucket/x is not a local path"),
    ],
)
def test_spark_is_chosen_for_options_that_only_spark_supports(overrides: dict[str, Any], reason: str) -> None:
    assert choose_engine(options("x", **overrides), converts=False) == Choice("spark", reason)
    with pytest.raises(UserError, match=r"the embedded engine does not do that \(.*\): pass --engine spark"):
        choose_engine(options("x", engine="embedded", **overrides), converts=False)


def test_table_of_a_different_format_needs_spark(tmp_path: Path) -> None:
    record = tmp_path / "_files" / "batch=1" / "part-0.json"
    record.parent.mkdir(parents=True)
    for table_format, expected_engine in (("parquet", None), ("iceberg", "spark")):
        record.write_text(json.dumps({"files": [], "format": table_format}, separators=(",", ":")))
        assert choose_engine(options("x", out=str(tmp_path)), converts=True).engine == expected_engine


def test_master_or_remote_selects_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_engine(options("x", master="yarn"), converts=False) == Choice("spark", master="yarn")
    assert choose_engine(options("x", remote="sc://h:1"), converts=False) == Choice("spark", master="sc://h:1")
    monkeypatch.setenv("SPARK_REMOTE", "sc://h:1")
    assert choose_engine(options("x"), converts=False).engine == "spark"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["x", "--master", "yarn", "--remote", "sc://h"], "pass one of them"),
        (["x", "--remote", "h:1"], "invalid --remote h:1: use sc://HOST:PORT"),
        (["x", "--engine", "embedded", "--master", "yarn"], "the embedded engine does not do that"),
        (["convert", "--compact"], "usage: kproxy analyze convert --compact --out DIR"),
        (["x", "--compact", "--out", "y"], "--compact works only with convert"),
        (["convert", "--compact", "--repair", "--out", "y"], "are two steps"),
        (["convert", "--compact", "--out", "/nothing"], "/nothing is not a table of traces"),
    ],
)
def test_contradictory_options_are_reported_in_one_sentence(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", *args]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
