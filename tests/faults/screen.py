"""The output of a live kproxy: the findings and stalls that it prints with `-q`, each with its time.

Only this module knows the format of the output.
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
_SEPARATE_REPORT: Final = re.compile(r"! ([A-Z]\d{3}|stall) ")


@dataclass(slots=True)
class Report:
    """A reported finding or stall.

    Attributes:
        at: When it was printed (s since the epoch).
        code: The code of the rule, or ``stall``.
        text: The text as printed, with its hint.
        frame: The heading above it, if it concerns a frame.
    """

    at: float
    code: str
    text: str
    frame: str = ""

    def __str__(self) -> str:
        return " ".join(self.text.split())


class Screen:
    """Reads the output of kproxy in a thread until it ends."""

    def __init__(self, printed: Iterable[str]) -> None:
        self.reports: list[Report] = []
        self.raw: list[str] = []
        self._frame = ""
        self._thread = threading.Thread(target=self._read, args=(printed,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until all output has been read."""
        self._thread.join()

    def _read(self, printed: Iterable[str]) -> None:
        for row in printed:
            self.raw.append(row)
            self.take(row.rstrip("\n"), time.time())

    def take(self, row: str, at: float) -> None:
        """Parse a row that was printed at this time."""
        if heading := _HEADING.match(row):
            self._frame = heading[1]
            if separate := _SEPARATE_REPORT.match(heading[1]):
                self.reports.append(Report(at, separate[1], heading[1]))
        elif finding := _FINDING.match(row):
            self.reports.append(Report(at, finding[1], row.strip(), self._frame))
        elif row.startswith(" " * 27) and self.reports:
            self.reports[-1].text += " " + row.strip()
