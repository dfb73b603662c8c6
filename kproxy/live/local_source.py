"""LocalSource: a source of lines that inspects in this process."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

from kproxy.inspection.inspector import Inspector
from kproxy.live.message_inspection import MessageInspection
from kproxy.live.progress import HasProgress, ProgressLog
from kproxy.proxy import tap_messages
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.shared_line import SharedLine

#: The tap is idle after this time without a message.
IDLE_NS: Final = 1_000_000_000


class LineSink(Protocol):
    """Takes the lines of a source, in order."""

    def take(self, lines: Iterable[SharedLine]) -> None:
        """Pass lines to their consumers."""

    def flush(self) -> None:
        """Write out everything received so far."""

    def announce_listeners(self, message: tap_messages.ListenersChanged) -> None:
        """Announce that the relay's listeners changed, after the lines so far."""


class LocalSource:
    """Inspects the tap's messages, and passes the lines to a sink.

    Args:
        inspector: Makes the lines.
        hello: The tap's first message.
        sink: Takes the lines.
        table: Where to store the progress of the inspection.
        progress_of: Knows the progress; by default, the inspector.

    Attributes:
        at: The time of the last message whose lines the sink has (ns since the epoch).
        messages: Counts connections that were not inspected.
        progress: Records how far connections are inspected.
        watched: The inspector, which has the state of connections.
        restarts: How many inspecting processes have ended early.
    """

    restarts: Final = 0

    def __init__(
        self,
        inspector: Inspector,
        hello: tap_messages.Hello,
        sink: LineSink,
        table: InspectedTable | None,
        progress_of: HasProgress | None = None,
    ) -> None:
        self.at = hello.at
        self.watched = inspector
        self.progress = ProgressLog(table, progress_of or inspector)
        self._sink = sink
        self._received: list[tap_messages.Message] = []  # messages whose lines the sink does not have completely
        self._activity = InspectorActivity() if table is None else table.activity
        self.messages = MessageInspection(inspector, self.progress, sample=hello.sample, activity=self._activity)
        inspector.on_frame(self._activity.reach_frame)

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return self.watched.in_flight

    def observe(self, message: tap_messages.Message) -> None:
        """Inspect a message of the tap, except the first. Data is inspected in batches, by `flush` or others."""
        if isinstance(message, tap_messages.ListenersChanged):
            self.flush()
            self._sink.announce_listeners(message)
        self.at = message.at
        self._activity.record_connection(getattr(message, "connection_id", 0))
        self._sink.take(map(SharedLine, self.messages.lines(message)))
        self._received.append(message)
        if not isinstance(message, tap_messages.TapData):
            self.flush()

    def fail(self, step: str, error: Exception) -> Iterable[SharedLine]:
        """Return the lines that report a bug in kproxy."""
        return map(SharedLine, self.watched.fail(step, error, at=self.at))

    def flush(self) -> None:
        """Pass on the lines of all messages so far."""
        if not self._received:
            return
        received, self._received = self._received, []
        self._sink.take(map(SharedLine, self.watched.flush()))
        for message in received:
            self.messages.add_progress(message)
        self._activity.finish_message(len(received))

    def tick(self) -> None:
        """Do periodic work; called every second."""
        self.flush()

    def on_idle(self) -> None:
        """Check deadlines, because the tap was idle for `IDLE_NS`, so everything up to that time has arrived."""
        self.flush()
        self.at = max(self.at, time.time_ns())
        self._sink.take(map(SharedLine, self.watched.tick(at=self.at - IDLE_NS)))

    def close(self) -> None:
        """Close the connections once the relay has ended."""
        self.flush()
        self._sink.take(map(SharedLine, self.watched.close_all(at=self.at, how="proxy ended")))

    def give_up(self) -> None:
        """Pass on the lines from before a failure of the inspection."""
        with suppress(Exception):
            self.flush()
