"""A real terminal: a command in tmux, keys in, screen out."""

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
#: What a shell that has run a command says then, with its exit status.
_ENDED = "ended with status"


class Terminal:
    """A command in a window of its own, of so many columns and rows. Its own tmux server, which ends with it.

    Args:
        command: Run by a shell, so that pipes can be had: ``Terminal.of`` takes words.
        size: Columns and rows.
        cwd: Where it runs.
        env: Beside the environment of the tests.
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
        done = subprocess.run(
            ["tmux", "-u", "-S", str(socket), *words], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    @property
    def screen(self) -> str:
        """What is on it, a line each."""
        return self._tmux("capture-pane", "-p")

    @property
    def coloured(self) -> str:
        """The same with the escape sequences of its colours; these go on from line to line."""
        return self._tmux("capture-pane", "-p", "-e", "-N")

    @property
    def copied(self) -> str:
        """What was put on the terminal's clipboard last (OSC 52)."""
        try:
            return self._tmux("show-buffer")
        except subprocess.CalledProcessError:  # nothing was
            return ""

    @property
    def lines(self) -> list[str]:
        """The same, without blanks at the ends."""
        return [line.rstrip() for line in self.screen.splitlines()]

    def press(self, *keys: str) -> None:
        """Press keys as tmux names them: ``j``, ``Enter``, ``Escape``, ``C-c``, ``Down``."""
        self._tmux("send-keys", *(r"\;" if key == ";" else key for key in keys))  # it ends a command of tmux

    def write(self, text: str) -> None:
        """Type a text."""
        self._tmux("send-keys", "-l", text)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def wait_for(self, shown: str | Callable[[str], object], *, seconds: float = 90) -> str:
        """Wait until the screen has a text, or satisfies a condition; the screen then."""

        def look() -> str:
            screen = self.screen
            return screen if (shown in screen if isinstance(shown, str) else shown(screen)) else ""

        try:
            return until(f"{shown}", look, seconds=seconds, every=0.05)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.screen}") from None

    def wait_for_end(self, *, seconds: float = 90) -> int:
        """The exit status of the command."""
        screen = self.wait_for(_ENDED, seconds=seconds)
        return int(screen.rpartition(_ENDED)[2].split()[0])

    @property
    def pid(self) -> int:
        """The process id of the shell that runs the command."""
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def close(self) -> None:
        """End the terminal, and with it what runs there."""
        with suppress(subprocess.SubprocessError):  # it is gone
            self._tmux("kill-server")
        shutil.rmtree(self._directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def need_tmux() -> None:
    """Skip the test where there is no tmux."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")


@contextmanager
def kproxy(
    *words: object, size: tuple[int, int] = (80, 24), cwd: Path, piped: str = "", env: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """A ``kproxy`` command line in a terminal; `piped` is a shell command whose output it gets, if any."""
    need_tmux()
    command = shlex.join([*KPROXY, *map(str, words)])
    with Terminal(f"{piped} | {command}" if piped else command, size=size, cwd=cwd, env=env) as terminal:
        yield terminal


def environment(directory: Path) -> Mapping[str, str]:
    """Caches and control sockets of their own, so that neither the user's proxies nor those of other tests are seen."""
    directory.chmod(0o700)
    return {"XDG_RUNTIME_DIR": str(directory), "TMPDIR": str(directory), "XDG_CACHE_HOME": str(directory / "cache")}


__all__: Sequence[str] = ("KPROXY", "Terminal", "environment", "kproxy", "need_tmux")
