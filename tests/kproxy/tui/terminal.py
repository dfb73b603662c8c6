"""A real terminal, to run a command in tmux, press keys and read the screen."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import pytest

from tests.peers.processes import until

KPROXY = (sys.executable, "-m", "kproxy")
#: The shell prints this after a command, followed by its exit status.
_ENDED = "ended with status"


class Terminal:
    """A command in a terminal window, with a separate tmux server that ends with it.

    Args:
        command: A shell command, which may contain pipes.
        size: Columns and rows.
        cwd: The working directory of the command.
        env: Additional environment variables.
    """

    def __init__(
        self, command: str, *, size: tuple[int, int] = (80, 24), cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self._directory = tempfile.mkdtemp(prefix="kproxy-tmux-")
        columns, rows = size
        environment = {"PYTHONWARNINGS": "ignore", "COLORTERM": "truecolor", **(env or {})}
        exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        script = f"unset COLUMNS LINES; export {exports}; {command}; echo {_ENDED} $?; exec cat"
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(cwd),
                   "sh", "-c", script, ";", "set-option", "-s", "set-clipboard", "on")  # fmt: skip

    def _tmux(self, *words: str) -> str:
        socket = Path(self._directory) / "tmux"
        process = subprocess.run(
            ["tmux", "-u", "-S", str(socket), *words], capture_output=True, text=True, timeout=60, check=True
        )
        return process.stdout

    @property
    def screen(self) -> str:
        """The text of the screen."""
        return self._tmux("capture-pane", "-p")

    @property
    def coloured(self) -> str:
        """The text of the screen with escape sequences for colours, which may span lines."""
        return self._tmux("capture-pane", "-p", "-e", "-N")

    @property
    def copied(self) -> str:
        """The text that was last copied to the clipboard of the terminal (OSC 52)."""
        try:
            return self._tmux("show-buffer")
        except subprocess.CalledProcessError:  # nothing was copied
            return ""

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without trailing blanks."""
        return [line.rstrip() for line in self.screen.splitlines()]

    def press(self, *keys: str) -> None:
        """Press keys as tmux names them: ``j``, ``Enter``, ``Escape``, ``C-c``, ``Down``."""
        self._tmux("send-keys", *(r"\;" if key == ";" else key for key in keys))  # a semicolon separates tmux commands

    def write(self, text: str) -> None:
        """Type text."""
        self._tmux("send-keys", "-l", text)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def wait_for(self, expected: str | Callable[[str], object], *, timeout: float = 90) -> str:
        """Wait until the screen contains a text or satisfies a condition; return the screen."""

        def matching_screen() -> str:
            screen = self.screen
            return screen if (expected in screen if isinstance(expected, str) else expected(screen)) else ""

        try:
            return until(f"{expected}", matching_screen, timeout=timeout, every=0.05)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.screen}") from None

    def wait_for_end(self, *, timeout: float = 90) -> int:
        """Wait until the command ends; return its exit status."""
        screen = self.wait_for(_ENDED, timeout=timeout)
        return int(screen.rpartition(_ENDED)[2].split()[0])

    @property
    def pid(self) -> int:
        """The process id of the shell that runs the command."""
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def close(self) -> None:
        """Close the terminal and end its processes."""
        with suppress(subprocess.SubprocessError):  # it may have ended already
            self._tmux("kill-server")
        shutil.rmtree(self._directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def need_tmux() -> None:
    """Skip the test if tmux is not installed."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")


@contextmanager
def kproxy(
    *words: object, size: tuple[int, int] = (80, 24), cwd: Path, piped: str = "", env: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Run a ``kproxy`` command in a terminal; if `piped` is given, the output of that shell command is its input."""
    need_tmux()
    command = shlex.join([*KPROXY, *map(str, words)])
    with Terminal(f"{piped} | {command}" if piped else command, size=size, cwd=cwd, env=env) as terminal:
        yield terminal


def environment(directory: Path) -> Mapping[str, str]:
    """Return an environment with new caches and control sockets that hides proxies of the user and of other tests."""
    directory.chmod(0o700)
    return {"XDG_RUNTIME_DIR": str(directory), "TMPDIR": str(directory), "XDG_CACHE_HOME": str(directory / "cache")}


__all__: Sequence[str] = ("KPROXY", "Terminal", "environment", "kproxy", "need_tmux")
