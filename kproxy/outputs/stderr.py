"""Messages for the user on standard error. Errors in writing them are ignored."""

from __future__ import annotations

import sys
from contextlib import suppress


def say(sentence: str) -> None:
    """Print a message."""
    with suppress(OSError):  # a full disk or a closed pipe must not end kproxy
        print(sentence, file=sys.stderr, flush=True)  # noqa: T201


def warn(sentence: str) -> None:
    """Print a warning or an error."""
    say(f"kproxy: {sentence}")
