"""A progress bar on standard error while an engine works."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

_REFRESH_S = 0.25


@contextmanager
def progress(spark: SparkSession | None, description: str) -> Iterator[None]:
    """Show the current step and its finished tasks on a terminal, within the context."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from kproxy.outputs.console import Console

    columns = (
        TextColumn(description, markup=False),
        BarColumn(),
        TextColumn("{task.fields[tasks]}"),
        TimeElapsedColumn(),
    )
    finished = threading.Event()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(description, total=None, tasks="")
        watcher = threading.Thread(target=_watch, args=(_tracker(spark), bar, task, finished), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()


def _tracker(spark: SparkSession | None) -> StatusTracker | None:
    """Return the status tracker; None with Spark Connect, and without an engine."""
    if spark is None:
        return None
    try:
        return spark.sparkContext.statusTracker()
    except PySparkException:
        return None


def _watch(tracker: StatusTracker | None, bar: Progress, task: TaskID, finished: threading.Event) -> None:
    while tracker is not None and not finished.wait(_REFRESH_S):
        stages = [
            info for stage_id in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage_id)) is not None
        ]
        if total := sum(stage.numTasks for stage in stages):
            done_count = sum(stage.numCompletedTasks for stage in stages)
            bar.update(task, total=total, completed=done_count, tasks=f"{done_count}/{total} tasks")
