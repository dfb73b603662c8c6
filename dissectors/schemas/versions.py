"""VersionRange: the version ranges of Kafka's message definitions."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions from `lowest` to `highest`, inclusive. `highest` None is unbounded; `lowest` None is no version.

    Iterating an unbounded range fails.
    """

    lowest: int | None = None
    highest: int | None = None

    @staticmethod
    @functools.cache
    def parse(text: str) -> VersionRange:
        """Parse ``"0-3"``, ``"2+"``, ``"7"`` or ``"none"``.

        Raises:
            ValueError: The text has none of these forms, or the range is reversed.
        """
        if text == "none":
            return VersionRange()
        if text.endswith("+"):
            return VersionRange(int(text[:-1]))
        lowest, dash, highest = text.partition("-")
        version_range = VersionRange(int(lowest), int(highest if dash else lowest))
        if version_range.highest is not None and int(lowest) > version_range.highest:
            raise ValueError(f"version range {text!r} runs backwards")
        return version_range

    def __contains__(self, version: int) -> bool:
        return self.lowest is not None and self.lowest <= version and (self.highest is None or version <= self.highest)

    def __iter__(self) -> Iterator[int]:
        if self.lowest is None:
            return iter(())
        if self.highest is None:
            raise ValueError(f"version range {self} has no end")
        return iter(range(self.lowest, self.highest + 1))

    def __str__(self) -> str:
        if self.lowest is None:
            return "none"
        if self.highest is None:
            return f"{self.lowest}+"
        return f"{self.lowest}" if self.lowest == self.highest else f"{self.lowest}-{self.highest}"
