"""Rich's console, adapted to the command line."""

from __future__ import annotations

import os

from rich import console

#: Wide enough for every table of a summary.
_UNLIMITED = 1000


class Console(console.Console):
    """A console that raises `BrokenPipeError` when its reader has closed, instead of ending the process."""

    def on_broken_pipe(self) -> None:
        """Re-raise the error that is being handled."""
        raise


def stderr_console() -> Console:
    """Return a console on standard error. In a file or a pipe, lines and tables are as wide as their text."""
    console = Console(stderr=True)
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(stderr=True, width=_UNLIMITED)
