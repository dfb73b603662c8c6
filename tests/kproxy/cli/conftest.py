"""Runs kproxy as its user does."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kproxy(tmp_path) -> Run:
    """Run a command line in an empty directory; text in and out."""

    def run(*args: object, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "kproxy", *map(str, args)],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=tmp_path,
            timeout=60,
            env={**os.environ, "PYTHONWARNINGS": "error", "COLUMNS": "120"},
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
