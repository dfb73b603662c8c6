"""A source fills a store with lines and reports its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from enum import StrEnum

from dissectors.bounded import BoundedDict
from kproxy.browse.rows.store import Store
from kproxy.control.protocol import LateResponse
from kproxy.errors import UserError

#: Maximum number of connections whose late response is kept.
_MAX_LATE = 10_000


class SourcePhase(StrEnum):
    """The state of a source."""

    READING = "reading"
    LIVE = "live"
    LOST = "lost"  # the connection is being retried
    ENDED = "ended"


class AmbiguousSourceError(UserError):
    """Raised if an argument matches several sources; `choices` are pairs of an unambiguous name and a description."""

    def __init__(self, message: str, choices: list[tuple[str, str]]) -> None:
        super().__init__(message)
        self.choices = choices


class Source(ABC):
    """A source of trace lines.

    `name` is shown to the user; `phase` and `sentence` are its state, `messages` its warnings so far. `is_stream` is
    true if the user wants to see the newest rows first. `late` maps a connection id to the last report about
    the connection's oldest waiting request.
    """

    is_stream = False

    def __init__(self, name: str, store: Store) -> None:
        self._percent = 0
        self.name = name
        self.store = store
        self.phase = SourcePhase.READING
        self.sentence = ""
        self.messages: deque[str] = deque(maxlen=200)
        self.late: BoundedDict[str, LateResponse] = BoundedDict(_MAX_LATE)

    @property
    def live(self) -> bool:
        """Whether more lines may come, so that requests in flight may still get responses."""
        return self.phase is SourcePhase.LIVE

    def percent(self) -> int | None:
        """Return the percentage read, which never decreases; None if unknown or complete."""
        if self.phase is not SourcePhase.READING or (progress := self._progress()) is None:
            self._percent = 0
            return None
        read_bytes, total = progress
        self._percent = max(self._percent, min(99, 100 * read_bytes // total) if total else 0)
        return self._percent

    def _progress(self) -> tuple[int, int] | None:
        """Return bytes read and bytes expected; None if that cannot be estimated."""
        return self.store.progress

    @property
    def empty_message(self) -> str:
        """The message shown while there are no rows: the reason, and what to do."""
        if self.phase is SourcePhase.READING:
            return f"Reading {self.name} ..."
        if self.phase is SourcePhase.LIVE:
            return f"{self.name} is still empty; new rows appear here."
        return f"{self.name} contains no Kafka traffic."

    @property
    def warning(self) -> str | None:
        """What stops when the user quits, as sentences; None if nothing does."""
        return None

    @abstractmethod
    async def run(self) -> None:
        """Fill the store until the source is complete. Problems are reported in `phase` and `sentence`."""

    def close(self) -> None:
        """Release all resources."""
        self.store.close()
