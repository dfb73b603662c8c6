"""PooledSource, for ``--inspectors N``: workers inspect, and their lines are passed on in the tap's order.

Work that needs the lines of all connections is done here: finding stalls of groups, and reporting each root cause once.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from kproxy.control.watch_state import WorkerLost
from kproxy.inspection.stall_lines import StallLines
from kproxy.live.first_reports import FirstReports
from kproxy.live.local_source import IDLE_NS, LineSink, LocalSource
from kproxy.live.options import InspectorOptions
from kproxy.live.worker import TICK, Reply, Worker, WorkerTick, work
from kproxy.live.worker_pool import WorkerPool
from kproxy.outputs.run_summary import RunSummary
from kproxy.outputs.stderr import warn
from kproxy.proxy import tap_messages
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.lines import (
    FRAME_LINES,
    CloseLine,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    RepeatEntry,
)
from kproxy.trace.shared_line import SharedLine

#: Messages at which the time of stalls advances, as in `Inspector`.
_TIMED: Final = (tap_messages.TapData, tap_messages.Open, tap_messages.Close, tap_messages.Query)


class PooledSource:
    """Passes the tap's messages to workers, and their lines to the sink.

    Args:
        options: What to do with the traffic.
        hello: The tap's first message.
        sink: Takes the lines.
        table: Where to store the progress of the inspection.
        summary: Receives the counts of the workers.
        selector: The selector of the event loop; it reports when workers have replied.
        relay_ended: Returns whether the relay has ended.

    Attributes:
        local: Handles messages that no worker gets.
        watched: The workers, which have the state of connections.
    """

    def __init__(
        self,
        options: InspectorOptions,
        hello: tap_messages.Hello,
        sink: LineSink,
        table: InspectedTable | None,
        *,
        summary: RunSummary,
        selector: selectors.BaseSelector,
        relay_ended: Callable[[], bool],
    ) -> None:
        self._sink = sink
        self._summary = summary
        self._selector = selector
        self._stall_lines = StallLines()
        self._causes = FirstReports()
        self._repeated: dict[str, Counter[tuple[str, str]]] = {}  # by open connection
        self._in_flight: dict[int, int] = {}  # by worker, as of the last tick
        self._last_at = hello.at  # the time of the last message
        activity = InspectorActivity() if table is None else table.activity
        inspector = options.inspector(hello)  # before the workers: they need not load all rules again

        def run(sock: socket.socket) -> None:
            partial = options.inspector(hello, partial=True)
            work(sock, Worker(partial, encodings=options.encodings, sample=hello.sample, activity=activity))

        self.watched = WorkerPool(options.workers, run, self._on_reply, warn, relay_ended, activity)
        self.local = LocalSource(inspector, hello, sink, table, progress_of=self.watched)
        selector.register(self.watched.fileno(), selectors.EVENT_READ, lambda _events: self._receive())

    @property
    def restarts(self) -> int:
        """How many workers have ended early."""
        return self.watched.restarts

    @property
    def in_flight(self) -> int:
        """The number of requests without a response, as of the last tick."""
        return sum(self._in_flight.values())

    def observe(self, message: tap_messages.Message) -> None:
        self._last_at = message.at
        try:
            self.watched.put(message)
        except (OSError, WorkerLost):
            raise
        except Exception as error:  # noqa: BLE001  # as in `MessageInspection.lines`
            self._pass_on(self.local.watched.fail("inspecting a message of the relay", error, at=message.at))

    def flush(self) -> None:
        self.watched.flush()

    def tick(self) -> None:
        self._in_flight = {pid: self._in_flight.get(pid, 0) for pid in self.watched.pids}
        self.watched.query(TICK, self._last_at)

    def on_idle(self) -> None:
        self.watched.drain()
        self.watched.query(TICK, max(self.local.at, time.time_ns()) - IDLE_NS)
        self.watched.drain()
        self.local.on_idle()

    def close(self) -> None:
        """Close the connections and workers once the relay has ended."""
        self.watched.drain()
        self._pass_on(self._find_stalls("tick", at=self.local.at))
        for number in self.watched.open_numbers:
            self.watched.put(tap_messages.Close(number, self.local.at, None, "proxy ended", 0, 0))
        self.watched.query(TICK, self.local.at)
        self.watched.drain()
        self._pass_on(self._find_stalls("end", at=self.local.at))
        self._selector.unregister(self.watched.fileno())
        self.watched.close()

    def give_up(self) -> None:
        """Stop listening to the workers after a failure. They end with this process."""
        with suppress(KeyError, ValueError):  # unless `close` has failed
            self._selector.unregister(self.watched.fileno())

    def _receive(self) -> None:
        self.watched.exchange()
        self._sink.flush()

    def _on_reply(self, message: tap_messages.Message, reply: Reply | None, progressed: Iterable[int]) -> None:
        """Pass on the lines of a message, and record its progress."""
        kind, at = type(message), message.at
        if kind is not tap_messages.Query:
            self.local.at = at
        if reply is None:
            self.local.observe(message)
            self.local.flush()
            return
        if at >= self._stall_lines.due and kind in _TIMED and not self.local.watched.is_behind:
            self._pass_on(self._find_stalls("tick", at=at))
        if reply.lines:
            self._sink.take(self._complete_lines(reply, at=at))
        for number in progressed:
            self.local.progress.record_progress(number)
        if isinstance(message, tap_messages.Open):
            self.local.progress.record_opened(message.connection_id, message.slot)
        elif isinstance(message, tap_messages.Close):
            self.local.progress.record_closed(message.connection_id)
        elif isinstance(reply.value, WorkerTick):
            self._in_flight[reply.value.pid] = reply.value.in_flight
            self._summary.merge(reply.value.summary)

    def _pass_on(self, lines: Iterable[Line]) -> None:
        self._sink.take(map(SharedLine, lines))

    def _complete_lines(self, reply: Reply, *, at: int) -> Iterator[SharedLine]:
        """Yield the lines of a worker, and the lines about stalls that begin or end with them.

        Findings whose root cause another worker has reported are left out; the line of a connection's end counts them.
        """
        causes = iter(reply.causes)
        for line in reply.lines:
            if type(line) is bytes:
                yield SharedLine(None, line)
                continue
            if isinstance(line, FRAME_LINES):
                self._causes.follow(line)
                if line.findings:
                    line.findings = [
                        finding for finding in line.findings if self._is_new(next(causes, ""), finding, line)
                    ]
            elif isinstance(line, FindingLine) and not self._is_new(next(causes, ""), line, line):
                continue
            elif isinstance(line, CloseLine) and (repeated := self._repeated.pop(line.connection_id, None)):
                repeated += Counter({(entry.code, entry.name): entry.count for entry in line.repeated})
                line.repeated = [
                    RepeatEntry(*code_and_name, count) for code_and_name, count in sorted(repeated.items())
                ]
            shared_line = line if isinstance(line, SharedLine) else SharedLine(line)  # type: ignore[arg-type]
            yield shared_line
            if shared_line.in_group or isinstance(line, CloseLine | GapLine):
                yield from map(SharedLine, self._find_stalls("observe", shared_line.line, at=at))

    def _find_stalls(self, method_name: str, *line: Line, at: int) -> list[Line]:
        try:
            lines: list[Line] = getattr(self._stall_lines, method_name)(*line, at=at)
        except Exception as error:  # noqa: BLE001
            self._stall_lines = StallLines()
            return self.local.watched.fail("following a group", error, at=at)
        return lines

    def _is_new(self, cause: str, finding: FindingEntry | FindingLine, line: Line) -> bool:
        if self._causes.is_new(cause, finding, line, at=self.local.at):
            return True
        self._repeated.setdefault(line.connection_id, Counter())[finding.code, finding.name] += 1
        return False
