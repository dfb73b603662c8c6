"""Where the lines of a live proxy come from, and the source that inspects in this process."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, Protocol

from kproxy.control.watched import Watched
from kproxy.inspection.inspector import Inspector
from kproxy.live.message_inspection import MessageInspection
from kproxy.live.progress import HasProgress, ProgressLog
from kproxy.proxy import tap_messages
from kproxy.proxy.inspected import InspectedTable
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.lines import Line
from kproxy.trace.shared_line import SharedLine

#: The tap is idle after this time without a message.
IDLE_NS: Final = 1_000_000_000


class LineSink(Protocol):
    """Takes the lines of a source, in order."""

    def take(self, lines: Iterable[SharedLine]) -> None:
        """Pass lines to their consumers."""

    def announce_listeners(self, message: tap_messages.ListenersChanged) -> None:
        """The relay's listeners have changed, after the lines so far."""

    def write(self) -> None:
        """Write the lines so far: the source has passed them on its own, and not while a message was observed."""


class LineSource(Protocol):
    """Inspects the tap's messages, and passes the lines to a sink.

    Attributes:
        at: The time of the last message whose lines the sink has (ns since the epoch).
        progress: How far connections are inspected.
        restarts: How many processes of the inspection had ended early.
        in_flight: Requests without a response.
        missed: Connections that came and went uninspected.
        left_out: Connections that were not chosen to be inspected; None until the last message.
    """

    progress: ProgressLog

    @property
    def at(self) -> int: ...

    @property
    def watched(self) -> Watched:
        """What has the state of connections, for viewers."""

    @property
    def restarts(self) -> int: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def missed(self) -> int: ...

    @property
    def left_out(self) -> int | None: ...

    def observe(self, message: tap_messages.Message) -> None:
        """Take one message of the tap after the first."""

    def fail(self, step: str, error: Exception) -> list[Line]:
        """The lines that report a bug in kproxy."""

    def flush(self) -> None:
        """Pass on the lines that are ready."""

    def tick(self) -> None:
        """Do periodic work; call it every second."""

    def idle(self) -> None:
        """The tap was idle for `IDLE_NS`, so everything up to then has arrived: check deadlines."""

    def close(self) -> None:
        """The relay has ended: close connections."""

    def give_up(self) -> None:
        """The inspection has failed."""


class LocalSource:
    """Inspects in this process.

    Args:
        inspector: Makes the lines.
        hello: The tap's first message.
        sink: Takes the lines.
        table: Where to store how far the inspection is.
        progress_of: Has the progress; by default, the inspector.
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
        self._activity = InspectorActivity() if table is None else table.activity
        self._messages = MessageInspection(inspector, self.progress, sample=hello.sample, activity=self._activity)

    @property
    def in_flight(self) -> int:
        return self.watched.in_flight

    @property
    def missed(self) -> int:
        return self._messages.missed

    @property
    def left_out(self) -> int | None:
        return self._messages.left_out

    def observe(self, message: tap_messages.Message) -> None:
        self.at = message.at
        if isinstance(message, tap_messages.ListenersChanged):
            self._sink.announce_listeners(message)
        self._activity.reach(getattr(message, "connection_id", 0))
        self._sink.take(map(SharedLine, self._messages.lines(message)))
        self._messages.add_progress(message)
        self._activity.finish_message()

    def fail(self, step: str, error: Exception) -> list[Line]:
        return self.watched.fail(step, error, at=self.at)

    def flush(self) -> None:
        """Nothing is buffered."""

    def tick(self) -> None:
        """The time advances with messages, and when the tap is idle."""

    def idle(self) -> None:
        self.at = max(self.at, time.time_ns())
        self._sink.take(map(SharedLine, self.watched.tick(at=self.at - IDLE_NS)))

    def close(self) -> None:
        self._sink.take(map(SharedLine, self.watched.close_all(at=self.at, how="proxy ended")))

    def give_up(self) -> None:
        """Nothing is left to do."""
