"""Fixtures that run kproxy as its user does."""

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
    """Run a command line in an empty directory; text in and out.

    It runs in this process, because starting Python and loading kproxy takes longer than most commands. Tests of what
    only a process has use `kproxy_process`: a relay forks before there are threads, and the test runner has threads.
    """

    def run(*args: object, stdin: str | bytes = "") -> subprocess.CompletedProcess[str]:
        words = [*map(str, args)]
        with pytest.MonkeyPatch.context() as patch, _stream(stdin) as given, _stream() as out, _stream() as err:
            patch.chdir(tmp_path)
            patch.setenv("COLUMNS", "120")
            patch.setattr(sys, "argv", ["kproxy", *words])
            patch.setattr(os, "fork", _fork)
            for name, stream in ("stdin", given), ("stdout", out), ("stderr", err):
                patch.setattr(sys, name, stream)
            try:
                status = main()
            except SystemExit as end:  # argparse
                status = end.code
            return subprocess.CompletedProcess(words, status, _written(out), _written(err))

    return run


@pytest.fixture
def kproxy_process(tmp_path) -> Run:
    """Run a command line in a process of its own, in an empty directory; text in and out."""

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


def _fork() -> NoReturn:
    pytest.fail("this command line starts a relay: use kproxy_process")


@contextmanager
def _stream(content: str | bytes = "") -> Iterator[io.TextIOWrapper]:
    """A standard stream: a file with a descriptor, as there is in a process."""
    with tempfile.TemporaryFile() as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.seek(0)
        yield io.TextIOWrapper(file, encoding="utf-8", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.buffer.seek(0)
    return stream.buffer.read().decode()
