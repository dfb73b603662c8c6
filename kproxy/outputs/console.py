"""Rich's console, as the command line treats its output."""

from __future__ import annotations

from rich import console


class Console(console.Console):
    """A reader that has left is a `BrokenPipeError`, which Rich makes an end of the process."""

    def on_broken_pipe(self) -> None:
        """Called while that error is handled."""
        raise
