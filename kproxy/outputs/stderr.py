"""Sentences for the user, on standard error. Where that cannot be written, there is nobody to tell."""

from __future__ import annotations

import sys
from contextlib import suppress


def say(sentence: str) -> None:
    """Tell something."""
    with suppress(OSError):  # a log on a full disk, a reader that has left: no reason to end
        print(sentence, file=sys.stderr, flush=True)  # noqa: T201


def warn(sentence: str) -> None:
    """Tell what is wrong."""
    say(f"kproxy: {sentence}")
