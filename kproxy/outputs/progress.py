"""A progress bar on standard error while a file takes long to read."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Seconds before the bar appears: most files are read in less time.
_DELAY_S: Final = 0.5


class _InputReader(Protocol):
    @property
    def bytes_read(self) -> int: ...


class ReadingProgress:
    """Draws a bar on a terminal once reading has taken half a second. Use it as a context manager.

    Call `advance` often. If output also goes to the terminal, call `stop_drawing` before each line: the first call
    removes the bar.
    """

    def __init__(self, path: Path) -> None:
        self.reading: _InputReader | None = None
        self._path = path
        self._total = path.stat().st_size if path.is_file() else None
        self._draws = sys.stderr.isatty()
        self._starts_at = time.monotonic() + _DELAY_S
        self._bar: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_drawing()

    def advance(self) -> None:
        """Show how much of the file has been read."""
        if not self._draws or self.reading is None:
            return
        if self._bar is None:
            if time.monotonic() < self._starts_at:
                return
            self._bar = self._start_bar()
        bar, task = self._bar
        bar.update(task, completed=self.reading.bytes_read)

    def stop_drawing(self) -> None:
        """Remove the bar permanently."""
        self._draws = False
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None

    def _start_bar(self) -> tuple[Progress, TaskID]:
        # imported here because few runs draw a bar
        from rich.markup import escape
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        from kproxy.outputs.console import Console

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        name = "".join(character if character.isprintable() else "?" for character in self._path.name)
        bar.start()
        return bar, bar.add_task(escape(name), total=self._total)
