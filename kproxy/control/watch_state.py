"""The state of the inspection that viewers can see in addition to lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kproxy.inspection.inspected_connection import OpenConnection
from kproxy.inspection.late_responses import WaitingResponse


class WorkerLost(Exception):
    """A worker of the inspector has ended, and no other worker takes its place."""


class WatchedInspector(Protocol):
    """An inspector, or the workers of an inspector.

    Attributes:
        frames: Whether lines have their `frame` at every detail.
    """

    frames: bool

    def open_connections(self) -> Iterator[OpenConnection]:
        """Yield the open connections, with the lines of their unanswered requests.

        Raises:
            WorkerLost: The inspection has ended.
        """

    def late_responses(self, *, at: int, repeat_reported: bool = False) -> Iterator[WaitingResponse]:
        """Yield the oldest unanswered request of each connection if its response has become late by another step.

        Raises:
            WorkerLost: The inspection has ended.
        """
