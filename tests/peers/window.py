"""`kproxy web` as a person has it: the command, and windows of a browser that show its terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.peers.browser import Browser, Tab
from tests.peers.processes import dies_with_us, until

#: The page keeps its terminal to itself; what it assigns last to the object that has it goes through here first.
_FOUND = """
Object.defineProperty(Object.prototype, "weblinksAddon", { configurable: true, set(addon) {
  window.shown = this.terminal;
  Object.defineProperty(this, "weblinksAddon", { value: addon });
} })
"""
_ROWS = """
[...Array(shown.rows).keys()].map((row) => shown.buffer.active.getLine(row).translateToString(true, 0, shown.cols))
"""
_CELL = """
(() => {
  const { x, y, width, height } = document.querySelector(".xterm-screen").getBoundingClientRect();
  return [x, y, width / shown.cols, height / shown.rows];
})()
"""


class Server:
    """A running `kproxy web`: its process, and the address that it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        said = iter(process.stderr.readline, "")
        found = next(filter(None, (re.search(r"^open (http://\S+)", line) for line in said)), None)
        assert found, "it has not begun"
        self.address = found[1]
        assert process.stderr.readline() == "press Ctrl-C to stop\n"

    def children(self) -> list[str]:
        """The command lines of its processes."""
        pid = self.process.pid
        lines = []
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(FileNotFoundError):
                lines.append(Path(f"/proc/{child}/cmdline").read_text().replace("\0", " "))
        return lines

    @property
    def sessions(self) -> int:
        """How many windows have a process."""
        return sum("kproxy tui" in line for line in self.children())


@contextmanager
def web(*words: object, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Runs `kproxy web` on a free port, in a process group of its own as in a shell."""
    command = [sys.executable, "-m", "kproxy", "web", "--bind", "0", *map(str, words)]
    with subprocess.Popen(
        dies_with_us(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=cwd, env=env, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield Server(process)
        finally:
            process.kill()


class Window:
    """A window of a browser with a terminal in it, of so many pixels."""

    def __init__(self, browser: Browser, address: str, *, width: int = 1280, height: int = 800) -> None:
        self.tab = Tab(browser)
        self.tab.call("Page.addScriptToEvaluateOnNewDocument", source=_FOUND)
        self.tab.resize(width, height)
        self.tab.call("Page.navigate", url=address)

    @property
    def rows(self) -> list[str]:
        """The text that the terminal shows; nothing before there is one."""
        rows: list[str] = self.tab.run(f"window.shown ? {_ROWS} : []")
        return rows

    def wait_for(self, wanted: str | Callable[[str], object]) -> str:
        """The screen, when it has a text or pleases a function."""
        pleases = wanted if callable(wanted) else lambda screen: wanted in screen
        shown = ""

        def look() -> object:
            nonlocal shown
            shown = "\n".join(self.rows)
            return pleases(shown)

        try:
            until("the screen", look, every=0.05)
        except TimeoutError:
            raise TimeoutError(f"waited for {wanted!r}, saw:\n{shown}") from None
        return shown

    def press(self, *keys: str) -> None:
        """Press keys."""
        for key in keys:
            self.tab.key(key)

    def click(self, text: str) -> None:
        """Click where a text begins on the screen."""
        row, line = next((row, line) for row, line in enumerate(self.rows) if text in line)
        x, y, width, height = self.tab.run(_CELL)
        self.tab.point_at(x + (line.index(text) + 0.5) * width, y + (row + 0.5) * height, click=True)
