"""Rich's console, adapted to the command line."""

from __future__ import annotations

from rich import console


class Console(console.Console):
    """A console that raises `BrokenPipeError` when its reader has closed, instead of ending the process."""

    def on_broken_pipe(self) -> None:
        """Re-raise the error that is being handled."""
        raise
