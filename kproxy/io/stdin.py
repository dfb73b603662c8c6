"""Reads standard input in a thread while an event loop does something else."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress


def follow_stdin(on_line: Callable[[str], object], on_end: Callable[[], object]) -> None:
    """Call `on_line` in a thread with each line that is not blank, and `on_end` at the end of standard input.

    The thread ends with the process, or when a callback raises `RuntimeError`, as a closed event loop does.
    """
    with suppress(ValueError, AttributeError):
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # otherwise reading would stop a kproxy in the background

    def read() -> None:
        with suppress(RuntimeError):
            while line := _next_line():
                if line.strip():
                    on_line(line)
            on_end()

    threading.Thread(target=read, daemon=True, name="standard input").start()


def _next_line() -> str:
    while True:
        try:
            return sys.stdin.readline()
        except UnicodeDecodeError:
            continue
        except OSError:  # the process is in the background
            time.sleep(1)
        except (ValueError, AttributeError):  # closed
            return ""
