"""Why a reading under a layout ends early."""

from __future__ import annotations


class Misfit(Exception):
    """The bytes cannot be read under the layout; `at` is where."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class TooDear(Misfit):
    """The reading costs more than is of use."""


class Spent(Misfit):
    """The work that was granted is done."""
