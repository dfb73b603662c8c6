"""Sentences for the user, on standard error."""

from __future__ import annotations

import sys


def say(sentence: str) -> None:
    """Tell something."""
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201


def warn(sentence: str) -> None:
    """Tell what is wrong."""
    say(f"kproxy: {sentence}")
