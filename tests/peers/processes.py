"""Child processes that never outlive the tests, and waiting for conditions."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def dies_with_us(command: list[str]) -> list[str]:
    """Wrap a command so that the system kills it when the test run ends or is killed (if setpriv exists)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command


def until(what: str, condition: Callable[[], T], *, timeout: float = 90, every: float = 0.02) -> T:
    """Wait until the condition is true, and return its value.

    Raises:
        TimeoutError: The condition stayed false for `timeout`; the message contains `what`.
    """
    end = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout:g} s: {what}")
        time.sleep(every)
    return value
