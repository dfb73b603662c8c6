"""Damaged inputs: commands use what can be read, and say so in their exit status."""

from __future__ import annotations

from kproxy.errors import USAGE
from kproxy.outputs.stderr import warn


class InputDamage:
    """Warns about lines of inputs that are lost, and remembers whether there are any."""

    def __init__(self) -> None:
        self._found = False

    def __call__(self, sentence: str) -> None:
        """Warn about lost lines."""
        self._found = True
        warn(sentence)

    def status(self, status: int) -> int:
        """The exit status of a command that would have this one if nothing were lost."""
        return USAGE if self._found else status
