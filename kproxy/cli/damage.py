"""Damaged inputs: commands use what can be read, and report the damage in their exit status."""

from __future__ import annotations

from kproxy.errors import USAGE
from kproxy.outputs.stderr import warn


class InputDamage:
    """Warns about lost lines of inputs, and remembers whether there were any."""

    def __init__(self) -> None:
        self._has_damage = False

    def __call__(self, sentence: str) -> None:
        """Warn about lost lines."""
        self._has_damage = True
        warn(sentence)

    def status(self, status: int) -> int:
        """Return the exit status of a command: `status`, unless lines were lost."""
        return USAGE if self._has_damage else status
