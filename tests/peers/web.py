"""Run `kproxy web`, and open browser windows with the application."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.peers.browser import Browser, Tab
from tests.peers.processes import dies_with_us


class Server:
    """A running `kproxy web`: its process, and the address that it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.process = process
        printed = iter(process.stderr.readline, "")
        match = next(filter(None, (re.search(r"^open (http://\S+)", line) for line in printed)), None)
        assert match, "it has not begun"
        self.address = match[1]
        assert process.stderr.readline() == "press Ctrl-C to stop\n"


@contextmanager
def run_web(*arguments: object, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run `kproxy web` on a free port, in a separate process group as a shell would."""
    command = [sys.executable, "-m", "kproxy", "web", "--bind", "0", *map(str, arguments)]
    with subprocess.Popen(
        dies_with_us(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=cwd, env=env, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield Server(process)
        finally:
            process.kill()


def open_window(browser: Browser, address: str, *, width: int = 1280) -> Tab:
    """Open a window with the application, and wait until it is ready."""
    tab = Tab(browser)
    tab.resize(width, 800)
    tab.call("Page.navigate", url=address)
    tab.until("document.documentElement?.dataset.ready")
    return tab
