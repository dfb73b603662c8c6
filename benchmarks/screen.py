"""A command in a real terminal (tmux), whose screen can be read 1,000 times per second."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

_LOOK_INTERVAL_S = 0.001


class Screen:
    """A separate window; one connection to tmux serves all key presses and reads, without a process for each.

    Args:
        command: The command to run.
        size: The numbers of columns and rows.
        env: Variables to add to the environment.
    """

    def __init__(
        self, command: Sequence[str], *, size: tuple[int, int] = (120, 40), env: Mapping[str, str] | None = None
    ) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="kproxy-")
        self._socket = str(Path(self._directory.name) / "tmux")
        tmux = ["tmux", "-u", "-S", self._socket, "-f", os.devnull]
        exports = {"COLORTERM": "truecolor", **(env or {})}
        script = (
            f"export {shlex.join(f'{name}={value}' for name, value in exports.items())}; exec {shlex.join(command)}"
        )
        self.began = time.perf_counter()
        window = ["new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), script]
        subprocess.run([*tmux, *window, ";", "set-option", "-g", "remain-on-exit", "on"], check=True)
        self._control = subprocess.Popen(
            [*tmux, "-C", "attach", "-f", "no-output,ignore-size"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._read_reply()  # the reply to the attach command
        self.pid = int(self._run_command("display-message -p '#{pane_pid}'")[0])

    def _run_command(self, command: str) -> list[str]:
        assert self._control.stdin is not None
        self._control.stdin.write(command.encode() + b"\n")
        self._control.stdin.flush()
        return self._read_reply()

    def _read_reply(self) -> list[str]:
        """Return the lines of the next reply, without tmux's notifications."""
        assert self._control.stdout is not None
        lines: list[str] | None = None
        for raw in self._control.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            if lines is None:
                lines = [] if line.startswith("%begin") else None
            elif line.startswith(("%end", "%error")):
                return lines
            else:
                lines.append(line)
        raise EOFError("tmux is gone: the command has ended")

    def look(self, *, styles: bool = False) -> list[str]:
        """Return the lines on the screen."""
        return self._run_command("capture-pane -p" + " -e" * styles)

    def press(self, key: str) -> None:
        """Press a key as tmux names it."""
        self._run_command(f"send-keys {shlex.quote(key)}")

    def write(self, text: str) -> None:
        """Type text."""
        self._run_command(f"send-keys -l {shlex.quote(text)}")

    def until(self, condition: Callable[[list[str]], object], *, timeout: float = 60, styles: bool = False) -> float:
        """Wait until the screen satisfies a condition; return the time (`time.perf_counter`)."""
        deadline = time.perf_counter() + timeout
        while time.perf_counter() < deadline:
            if condition(self.look(styles=styles)):
                return time.perf_counter()
            time.sleep(_LOOK_INTERVAL_S)
        raise TimeoutError("\n".join(self.look()))

    def time_key(self, key: str, condition: Callable[[list[str]], object], *, styles: bool = False) -> float:
        """Press a key; return the seconds until the screen satisfies a condition."""
        began = time.perf_counter()
        self.press(key)
        return self.until(condition, styles=styles) - began

    def time_change(self, key: str, first: int, last: int) -> float:
        """Press a key; return the seconds until one of these lines, which nothing else changes, has changed."""
        lines_before = self.look(styles=True)[first:last]
        return self.time_key(key, lambda lines: lines[first:last] != lines_before, styles=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, EOFError):
            self._run_command("kill-server")
        self._control.communicate()
        self._directory.cleanup()
