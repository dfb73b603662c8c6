"""Both engines produce equal tables, and the embedded engine serves only its parent process.

`test_elsewhere` compares their reports.
"""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from kproxy.cli import main
from kproxy.cli.analyze.session import embedded_error
from kproxy.errors import UserError
from kproxy.spark import jobs
from tests.kproxy.spark import sample_fleet
from tests.kproxy.spark.conftest import ENGINE
from tests.kproxy.spark.files import CAPTURES, REPOSITORY, trace_bytes, write
from tests.kproxy.spark.sample_lines import request, response

pytest.importorskip("pysail")

from kproxy.spark.session.embedded_engine import EmbeddedEngine

_LINES = 8000
_WITH_SPARK = pytest.mark.skipif(ENGINE == "embedded", reason="compares with Spark")
#: Functions, each with the number of arguments that Sail 0.7.2 uses. It silently ignores a weight, so the
#: median of 1 (once) and 99 (ten times) is 50.
_USED_ARGUMENTS = {"percentile": 2, "percentile_approx": 3, "median": 1}
#: Aggregates whose result over a window differs in Sail, each with its replacement in `kproxy.spark.columns`.
_WINDOW_REPLACEMENTS = {"collect_list": "list_over", "collect_set": "set_over"}
#: Number formats that Sail writes differently, and regular expression syntax that it rejects.
_UNSUPPORTED_SYNTAX = re.compile(r"%[-+0-9.,]*[gG]|\(\?[=!<]")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a week with planted problems, captures of other clusters, and torn, corrupt and compressed traces."""
    folder = tmp_path_factory.mktemp("inputs")
    sample_fleet.write(folder / "week", _LINES)
    for path in CAPTURES.iterdir():
        if path.is_file() and path.suffix != ".md":
            (folder / path.name).write_bytes(path.read_bytes())
    lines = trace_bytes(request(), response(at=1), response("Produce", at=2, latency_us=70_000))
    write(folder / "torn.jsonl", lines[:-9])
    write(folder / "corrupt.jsonl", lines + b"no line\n" + lines)
    write(folder / "a.jsonl.gz", lines)
    write(folder / "b.jsonl.zst", lines)
    return folder


@pytest.fixture(autouse=True)
def _restore_spark(spark: SparkSession) -> Iterator[None]:
    """Let functions of pyspark.sql build columns for Spark again; the shared session stays the current one."""
    assert spark is not None
    yield
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


def run_embedded(*args: object) -> subprocess.CompletedProcess[str]:
    """Run the command as a process with the embedded engine."""
    command = [sys.executable, "-m", "kproxy", "analyze", "--engine", "embedded", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)


@_WITH_SPARK
def test_engines_produce_equal_tables(
    spark: SparkSession, inputs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    all_jobs = [
        word for name in jobs.names() for word in ("--job", name)
    ]  # including jobs whose tables are only stored
    embedded_run = run_embedded("--format", "json", *all_jobs, inputs)
    capfd.readouterr()
    status = main(["analyze", "--engine", "spark", "--format", "json", *all_jobs, str(inputs)])
    out, err = capfd.readouterr()
    assert (embedded_run.returncode, embedded_run.stderr) == (status, err) == (2, err)
    assert "2 of " in err
    tables, expected = _tables(embedded_run.stdout), _tables(out)
    assert {name for name, rows in tables.items() if rows} >= set(jobs.names()) - {"schemas", "share-groups"}
    for name in jobs.names():
        assert tables[name] == expected[name]
    assert len({row["cluster"] for row in tables["latency"]}) > 2


def _tables(output: str) -> dict[str, list[dict[str, Any]]]:
    tables = defaultdict(list)
    for line in output.splitlines():
        row = json.loads(line)
        tables[row.pop("job")].append(row)
    return tables


@pytest.mark.parametrize("path", sorted((REPOSITORY / "kproxy/spark").rglob("*.py")), ids=str)
def test_source_avoids_arguments_and_syntax_that_sail_does_not_support(path: Path) -> None:
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            max_arguments = _USED_ARGUMENTS.get(name)
            assert max_arguments is None or len(node.args) <= max_arguments, f"{path}:{node.lineno}"
            assert name not in _USED_ARGUMENTS or all(keyword.arg != "frequency" for keyword in node.keywords)
            if name == "over" and path.name != "columns.py" and isinstance(node.func, ast.Attribute):
                called = {
                    attribute.attr for attribute in ast.walk(node.func.value) if isinstance(attribute, ast.Attribute)
                }
                assert not called & _WINDOW_REPLACEMENTS.keys(), f"{path}:{node.lineno}: use {_WINDOW_REPLACEMENTS}"
        # Docstrings are also constants; table_columns has regular expressions that only Python evaluates.
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and path.stem != "table_columns":
            assert id(node) in docstrings or _UNSUPPORTED_SYNTAX.search(node.value) is None, f"{path}:{node.lineno}"


def test_engine_accepts_one_connection_and_ends_with_its_parent() -> None:
    engine = EmbeddedEngine(1 << 30)
    port = engine._read()
    engine._read = lambda _=b"", read=engine._read: read(_) if _ else port  # type: ignore[method-assign,misc]
    session = engine.connect()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)
    assert session.range(3).count() == 3
    engine._process.stdin.close()  # type: ignore[union-attr]  # as if this process ended, for whatever reason
    assert engine._process.wait(60) == 0


def test_program_that_connects_first_is_detected() -> None:
    engine = EmbeddedEngine(1 << 30)
    port = engine._read()
    engine._read = lambda _=b"", read=engine._read: read(_) if _ else port  # type: ignore[method-assign,misc]
    with (
        socket.create_connection(("127.0.0.1", port), 5),
        pytest.raises(UserError, match="another program has connected to the embedded engine"),
    ):
        engine.connect()
    assert engine.has_died


@pytest.mark.parametrize("step", ["reading", "tables"])
def test_ctrl_c_ends_all_processes(tmp_path: Path, step: str) -> None:
    sample_fleet.write(tmp_path / "in", 30_000)
    command = [sys.executable, "-m", "kproxy", "analyze", "--engine", "embedded", "--format", "json"]
    with subprocess.Popen(
        [*command, str(tmp_path / "in")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        if step == "reading":
            while not list(tmp_path.glob("kproxy-analyze-*/_new/*/date=*")):
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.01)
        else:
            process.stdout.readline()
        child_pids = _descendants(process.pid)
        assert len(child_pids) > (step == "reading")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        try:
            assert process.wait(60) == 130
        finally:
            process.kill()  # leaving the block waits for it
        assert process.stderr.read() == b""
    while any(Path(f"/proc/{pid}").exists() for pid in child_pids):
        time.sleep(0.01)
    assert list(tmp_path.glob("kproxy-analyze-*")) == []


def _descendants(pid: int) -> list[int]:
    children = [int(child) for path in Path(f"/proc/{pid}/task").iterdir() for child in _children(path)]
    return [*children, *(descendant for child in children for descendant in _descendants(child))]


def _children(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except FileNotFoundError:
        return []


def test_out_of_memory_error_suggests_spark_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sample_fleet.write(tmp_path, _LINES)
    monkeypatch.setattr("kproxy.cli.analyze.session.memory_limit", lambda: 1_000_000)
    capfd.readouterr()
    assert main(["analyze", "--engine", "embedded", "--job", "slow-exchanges", str(tmp_path)]) == 2
    err = capfd.readouterr().err
    assert err.startswith("kproxy: the embedded engine ")
    assert "pass --engine spark" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("ends", "expected"), [(True, "died, probably"), (False, "has closed its connection; pass")])
def test_lost_connection_is_reported_before_the_process_ends(ends: bool, expected: str) -> None:
    error = Exception("failed to connect to all addresses; last error: UNKNOWN: Connection refused")
    engine = SimpleNamespace(has_died=False, ends=lambda within: ends and within > 0)
    assert f"the embedded engine {expected}" in embedded_error(cast("EmbeddedEngine", engine), error)


def test_dead_engine_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "x.jsonl", trace_bytes(request()))

    def connect(engine: EmbeddedEngine) -> Any:
        session = original_connect(engine)
        engine._process.kill()
        engine._process.wait()
        return session

    original_connect = EmbeddedEngine.connect
    monkeypatch.setattr(EmbeddedEngine, "connect", connect)
    capfd.readouterr()
    assert main(["analyze", "--engine", "embedded", str(tmp_path)]) == 2
    assert capfd.readouterr().err == (
        "kproxy: the embedded engine died, probably out of memory; pass --engine spark, which needs less, "
        "or analyze fewer lines (--since, --where, --sample)\n"
    )
