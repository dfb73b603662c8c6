"""Messages for the user on standard error. Errors in writing them are ignored."""

from __future__ import annotations

import sys
from contextlib import suppress

from kproxy.escaping import terminal, terminal_lines


def print_message(sentence: str) -> None:
    """Print a message; untrusted text in it cannot control the terminal."""
    with suppress(OSError):  # a full disk or a closed pipe must not end kproxy
        print(terminal_lines(sentence), file=sys.stderr, flush=True)  # noqa: T201


def warn(sentence: str) -> None:
    """Print a warning or an error on one line."""
    print_message(f"kproxy: {terminal(sentence)}")
