"""A progress bar on standard error while a large file is read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

#: Smaller files (bytes) are read too fast for a bar.
_MIN_SIZE = 8 << 20


class _Reading(Protocol):
    @property
    def bytes_read(self) -> int: ...


@contextmanager
def progress(reading: _Reading, path: Path) -> Iterator[Callable[[], None]]:
    """Yield a function that updates the bar. Without a terminal, or if output goes to it too, nothing is drawn."""
    total = path.stat().st_size if path.is_file() else 0
    if total < _MIN_SIZE or not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda: None
        return
    # imported here because few runs draw a bar
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from kproxy.outputs.console import Console

    columns = (TextColumn(path.name), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(path.name, total=total)
        yield lambda: bar.update(task, completed=reading.bytes_read)
