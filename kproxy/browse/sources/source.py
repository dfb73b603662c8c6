"""A source fills a store with lines and says how it goes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from enum import StrEnum

from kproxy.browse.rows.store import Store
from kproxy.errors import UserError


class SourcePhase(StrEnum):
    """How a source stands."""

    READING = "reading"
    LIVE = "live"
    LOST = "lost"  # and tried again
    ENDED = "ended"


class SeveralSources(UserError):
    """What the user gave fits several; `choices` are a name that fits one alone, and what that is."""

    def __init__(self, message: str, choices: list[tuple[str, str]]) -> None:
        super().__init__(message)
        self.choices = choices


class Source(ABC):
    """Something to look at.

    `name` is what the user calls it; `phase` and `sentence` say how it stands, `messages` what was told on the way.
    `server_names` are what servers are to be called instead of their addresses in the trace.
    `is_stream` says whether its newest rows are what a user wants to see first.
    """

    is_stream = False

    def __init__(self, name: str, store: Store) -> None:
        self._percent = 0
        self.name = name
        self.server_names: Mapping[str, str] = {}
        self.store = store
        self.phase = SourcePhase.READING
        self.sentence = ""
        self.messages: deque[str] = deque(maxlen=200)

    @property
    def live(self) -> bool:
        """Whether time goes on: what is not answered yet may still be."""
        return self.phase is SourcePhase.LIVE

    def percent(self) -> int | None:
        """How much of it was read, in percent; it never goes back. None if that is not known, or all was read."""
        if self.phase is not SourcePhase.READING or (progress := self._progress()) is None:
            self._percent = 0
            return None
        taken, there = progress
        self._percent = max(self._percent, min(99, 100 * taken // there) if there else 0)
        return self._percent

    def _progress(self) -> tuple[int, int] | None:
        """Bytes read, and bytes there will be; None if that cannot be estimated."""
        return self.store.progress

    @property
    def nothing(self) -> str:
        """What to say while there are no rows: why, and what to do."""
        if self.phase is SourcePhase.READING:
            return f"Reading {self.name} ..."
        if self.phase is SourcePhase.LIVE:
            return f"{self.name} is still empty; new rows appear here."
        return f"{self.name} contains no Kafka traffic."

    @property
    def warning(self) -> str | None:
        """What ends when the user leaves, as sentences; None if nothing does."""
        return None

    @abstractmethod
    async def run(self) -> None:
        """Fill the store until there is nothing more to come. What goes wrong is told in `phase` and `sentence`."""

    def close(self) -> None:
        """Let everything go."""
        self.store.close()
