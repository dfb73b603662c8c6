"""The commands of the example DAG can be run; Airflow itself is not installed here."""

from __future__ import annotations

import ast
import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kproxy.cli import main
from tests.kproxy.spark.conftest import ENGINE
from tests.kproxy.spark.files import REPOSITORY, trace_bytes, write
from tests.kproxy.spark.sample_lines import response

_DAG = REPOSITORY / "docs/examples/airflow_kproxy.py"
#: The values that Airflow inserts into the commands in the night before 2026-11-22.
_RENDERED = {"{{ ds }}": "2026-11-22", "{{ macros.ds_add(ds, -1) }}": "2026-11-21"}


def _commands() -> dict[str, str]:
    """Return the commands of the DAG by name, as Airflow renders them."""
    assigned = [node for node in ast.parse(_DAG.read_text()).body if isinstance(node, ast.Assign)]
    commands = {ast.unparse(node.targets[0]): ast.literal_eval(node.value) for node in assigned}
    for name, command in commands.items():
        for template, value in _RENDERED.items():
            commands[name] = commands[name].replace(template, value)
        assert "{" not in commands[name], command
    return commands


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that runs a command in this process, with words and variables expanded as in Bash."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)

    def run_in_process(command: str, *options: str) -> int:
        program, *args = (os.path.expandvars(word) for word in shlex.split(command))
        assert program == "kproxy"
        return main([*args, *options, "--engine", ENGINE])

    return run_in_process


def test_commands_of_the_dag_write_the_tables_of_a_day(
    run: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [response("Fetch"), response("Produce", at=86_400)]  # 2026-11-21 and 2026-11-22
    write(tmp_path / "traces" / "a.jsonl", trace_bytes(*lines))
    for name in ("traces", "lines", "tables"):
        monkeypatch.setenv(f"KPROXY_{name.upper()}", str(tmp_path / name))
    commands = _commands()
    for _ in range(2):  # Airflow may retry
        assert run(commands["CONVERT"]) == 0
    assert run(commands["TABLES"], "--job", "latency", "--format", "json") == 0
    [file] = (tmp_path / "tables" / "day=2026-11-21" / "latency").glob("*.json")
    rows = map(json.loads, file.read_text().splitlines())
    assert [(row["api"], row["responses"]) for row in rows if row["by"] == "api"] == [("Fetch", 1)]
