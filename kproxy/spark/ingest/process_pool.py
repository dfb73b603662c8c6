"""A pool of processes for tasks of pure Python and Arrow, which end with this process however it ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from typing import Final, TypeVar

from kproxy.errors import UserError

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Modules that are imported once, before the workers are forked.
_PRELOADED: Final = ["kproxy.spark.ingest.local_tables"]


def run_tasks(
    function: Callable[[Task], Result], tasks: Sequence[Task], *, workers: int | None = None
) -> Iterator[Result]:
    """Yield the results of tasks in the order of their completion; a single task runs in this process.

    Workers are forked from a fresh process, since this one may have threads (of gRPC, of a notebook).

    Args:
        function: A function that can be pickled, as the tasks and results.
        tasks: Its arguments.
        workers: The number of processes; by default, one per available core.

    Raises:
        UserError: A worker was killed.
    """
    workers = min(workers or len(os.sched_getaffinity(0)), len(tasks))
    if workers < 2:
        yield from map(function, tasks)
        return
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)
    try:
        for future in as_completed([pool.submit(function, task) for task in tasks]):
            yield future.result()
    except BrokenProcessPool:
        raise UserError("a process that reads traces was killed, probably out of memory") from None
    except BaseException:  # an error or Ctrl-C: nobody waits for the tasks that are running
        for process in list((pool._processes or {}).values()):
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Prepare a worker: Ctrl-C is handled by the parent, whose end also ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
