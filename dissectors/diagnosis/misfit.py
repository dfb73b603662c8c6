"""Exceptions that end a reading of a frame early."""

from __future__ import annotations


class Misfit(Exception):
    """The bytes do not fit the layout; `at` is the offset."""

    def __init__(self, at: int) -> None:
        self.at = at  # no super().__init__: BaseException.__new__ keeps the arguments, and this is raised very often


class TooExpensive(Misfit):
    """The reading costs more than its limit."""


class WorkExhausted(Misfit):
    """The reading has used up the work allowed for it."""
