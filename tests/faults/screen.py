"""What a live kproxy has said: the findings and stalls that `-q` printed, with the time at which each appeared.

This is the only place that knows what a verdict looks like on the screen.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_HEADING: Final = re.compile(r"\d\d:\d\d:\d\d\.\d{3} +#\S+ (.*)")
_FINDING: Final = re.compile(r" {22}([A-Z]\d{3}) \S+  ")
_OWN_LINE: Final = re.compile(r"! ([A-Z]\d{3}|stall) ")


@dataclass(slots=True)
class Said:
    """A finding or a stall.

    Attributes:
        at: When it was printed (s since the epoch).
        code: Of the rule; ``stall``.
        text: As printed, with its hint.
        frame: The heading above it, if it is about a frame.
    """

    at: float
    code: str
    text: str
    frame: str = ""

    def __str__(self) -> str:
        return " ".join(self.text.split())


class Screen:
    """Reads what kproxy prints, in a thread, until it ends."""

    def __init__(self, printed: Iterable[str]) -> None:
        self.said: list[Said] = []
        self.raw: list[str] = []
        self._frame = ""
        self._thread = threading.Thread(target=self._read, args=(printed,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Return when all has been read."""
        self._thread.join()

    def _read(self, printed: Iterable[str]) -> None:
        for row in printed:
            self.raw.append(row)
            self.take(row.rstrip("\n"), time.time())

    def take(self, row: str, at: float) -> None:
        """Take a row that appeared at this time."""
        if heading := _HEADING.match(row):
            self._frame = heading[1]
            if own := _OWN_LINE.match(heading[1]):
                self.said.append(Said(at, own[1], heading[1]))
        elif finding := _FINDING.match(row):
            self.said.append(Said(at, finding[1], row.strip(), self._frame))
        elif row.startswith(" " * 27) and self.said:
            self.said[-1].text += " " + row.strip()
