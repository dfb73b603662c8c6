"""A source fills a store with lines and says how it goes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from enum import StrEnum

from kproxy.browse.rows.store import Store


class Phase(StrEnum):
    """How a source stands."""

    READING = "reading"
    LIVE = "live"
    LOST = "lost"  # and tried again
    ENDED = "ended"


class SourceError(Exception):
    """A source that cannot be opened; one sentence that says what to do."""


class Source(ABC):
    """Something to look at.

    `name` is what the user calls it; `phase` and `sentence` say how it stands, `messages` what was told on the way.
    """

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self.store = store
        self.phase = Phase.READING
        self.sentence = ""
        self.messages: deque[str] = deque(maxlen=200)

    @property
    def live(self) -> bool:
        """Whether time goes on: what is not answered yet may still be."""
        return self.phase is Phase.LIVE

    @abstractmethod
    async def run(self) -> None:
        """Fill the store until there is nothing more to come. What goes wrong is told in `phase` and `sentence`."""

    def close(self) -> None:
        """Let everything go."""
        self.store.close()
