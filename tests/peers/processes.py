"""Processes and conditions: children that never outlive the tests, and waiting without guessing how long."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def dies_with_us(command: list[str]) -> list[str]:
    """The command so that the system kills it when the test run ends, however that ends (where setpriv exists)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", *command] if setpriv else command


def until(what: str, condition: Callable[[], T], *, seconds: float = 90, every: float = 0.02) -> T:
    """The condition's first true value.

    Raises:
        TimeoutError: It stayed false for so long; the message is `what` was waited for.
    """
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(every)
    return value
