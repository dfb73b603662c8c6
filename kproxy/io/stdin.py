"""Standard input, read in a thread while an event loop does something else."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress


def follow_stdin(take: Callable[[str], object], ended: Callable[[], object]) -> None:
    """Have `take` called in a thread with each line that is not blank, and `ended` at the end.

    The thread ends with the process, and when one of the two raises `RuntimeError`: the loop that they would tell has
    ended.
    """
    with suppress(ValueError, AttributeError):
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # else typing elsewhere would stop a kproxy in the background

    def read() -> None:
        with suppress(RuntimeError):
            while line := _next_line():
                if line.strip():
                    take(line)
            ended()

    threading.Thread(target=read, daemon=True, name="standard input").start()


def _next_line() -> str:
    while True:
        try:
            return sys.stdin.readline()
        except UnicodeDecodeError:
            continue
        except OSError:  # in the background of a terminal
            time.sleep(1)
        except (ValueError, AttributeError):  # closed
            return ""
