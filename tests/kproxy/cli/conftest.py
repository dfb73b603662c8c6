"""Fixtures that run kproxy as a user would."""

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

from kproxy.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kproxy(tmp_path) -> Run:
    """Run a command line in an empty directory, with text as input and output.

    The command runs in this process, because starting Python and loading kproxy takes longer than most commands. Tests
    that need a real process use `kproxy_process`: a relay forks before it has threads, but the test runner has threads.
    """

    def run(*args: object, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
        words = [*map(str, args)]
        with (
            pytest.MonkeyPatch.context() as patch,
            _standard_stream(stdin) as stdin_file,
            _standard_stream() as stdout_file,
            _standard_stream() as stderr_file,
        ):
            patch.chdir(tmp_path)
            patch.setenv("COLUMNS", "120")
            patch.setattr(sys, "argv", ["kproxy", *words])
            patch.setattr(os, "fork", _forbid_fork)
            for name, stream in ("stdin", stdin_file), ("stdout", stdout_file), ("stderr", stderr_file):
                patch.setattr(sys, name, stream)
            try:
                status = main()
            except SystemExit as error:  # argparse
                status = error.code
            return subprocess.CompletedProcess(words, status, _read_all(stdout_file), _read_all(stderr_file))

    return run


@pytest.fixture
def kproxy_process(tmp_path) -> Run:
    """Run a command line in its own process and in an empty directory, with text as input and output."""

    def run(*args: object, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
        process = subprocess.run(
            [sys.executable, "-m", "kproxy", *map(str, args)],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=tmp_path,
            timeout=60,
            env={**os.environ, "PYTHONWARNINGS": "error", "COLUMNS": "120"},
            check=False,
        )
        return subprocess.CompletedProcess(
            process.args, process.returncode, process.stdout.decode(), process.stderr.decode()
        )

    return run


def _forbid_fork() -> NoReturn:
    pytest.fail("this command line starts a relay: use kproxy_process")


@contextmanager
def _standard_stream(content: str | bytes = "") -> Iterator[io.TextIOWrapper]:
    """Yield a standard stream: a file with a descriptor, as in a real process."""
    with tempfile.TemporaryFile() as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.seek(0)
        yield io.TextIOWrapper(file, encoding="utf-8", write_through=True)


def _read_all(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.buffer.seek(0)
    return stream.buffer.read().decode()
