"""A pool of processes for tasks in pure Python and Arrow. They end with this process, no matter how it ends.

The pools of `multiprocessing` fork this process, which may have threads (of gRPC, of a notebook), or import its main
module again, which a user's script may not be prepared for.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from kproxy.errors import UserError

Task = TypeVar("Task")
Result = TypeVar("Result")

_PROGRAM: Final = "import sys; sys.path[:] = sys.argv[1:]; from kproxy.spark.ingest.process_pool import work; work()"


def run_tasks(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
    """Yield results in the order in which tasks finish, with a process per core; a single task runs in this process.

    Args:
        function: A function that can be pickled, as can its arguments and results.
        tasks: The arguments to call it with.

    Raises:
        UserError: A process was killed.
    """
    count = min(len(os.sched_getaffinity(0)), len(tasks))
    if count < 2:
        yield from map(function, tasks)
        return
    processes = [_start_process() for _ in range(count)]
    idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
    for process in processes:
        idle.put(process)

    def run_task(task: Task) -> Any:
        process = idle.get()
        try:
            return _run_in_process(process, (function, task))
        finally:
            idle.put(process)

    threads = ThreadPoolExecutor(count)
    try:
        for future in as_completed([threads.submit(run_task, task) for task in tasks]):
            yield future.result()
    finally:  # also after Ctrl-C: do not wait for running tasks
        for process in processes:
            process.kill()
        threads.shutdown(cancel_futures=True)
        for process in processes:
            process.wait()
            for file in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    file.close()  # type: ignore[union-attr]


def _start_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603  # Python with our own program
        [sys.executable, "-c", _PROGRAM, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        process_group=0,  # Ctrl-C is for this process alone
    )  # fmt: skip


def _run_in_process(process: subprocess.Popen[bytes], call: tuple[Callable[[Task], Result], Task]) -> Result:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(pickle.dumps(call))
        process.stdin.flush()
        result, error = pickle.load(process.stdout)  # noqa: S301  # from our own process
    except (BrokenPipeError, EOFError, pickle.UnpicklingError):
        raise UserError("a process that reads traces was killed, probably out of memory") from None
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def work() -> None:
    """Run the tasks that arrive on standard input, until it ends."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints must not mix with the results
    while True:
        try:
            function, task = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the process that started this one
        except EOFError:
            return
        outcome: tuple[Any, Exception | None]
        try:
            outcome = (function(task), None)
        except Exception as error:  # noqa: BLE001  # raised by the parent process
            outcome = (None, error)
        output.write(pickle.dumps(outcome))
        output.flush()
