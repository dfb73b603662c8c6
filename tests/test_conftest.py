"""conftest.py changes pytest itself as intended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FAILING_TEST = (
    """
import ast

class Garbage:
    def __init__(self):
        self.itself = self

    def __del__(self):
        ast.parse("1")

def test():
    garbage = [Garbage() for _ in range(100)]
    garbage.clear()
    assert False
"""
    + "1 + 1\n" * 2000
)


@pytest.mark.slow
def test_garbage_collection_during_a_failure_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING_TEST)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        tmp_path,
        tmp_path,
    ]
    completed = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False)
    assert completed.returncode == 1, completed.stdout
    assert "1 failed" in completed.stdout
