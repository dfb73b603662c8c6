"""The sink of ``--inspectors N``: workers inspect, and this process writes their lines in the tap's order.

What needs the lines of all connections is done here: stalls of groups, and reporting each root cause once.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from dissectors.bounded import BoundedDict
from dissectors.trackers.state import FORGOTTEN_AFTER, MAX_CAUSES
from kproxy.control.watched import WorkerLost
from kproxy.inspection.stall_lines import StallLines
from kproxy.live.sink import IDLE_NS, InspectionSink, InspectorOptions, inspector_of
from kproxy.live.worker import TICK, AnyLine, GroupLine, Reply, Worker, WorkerTick, work
from kproxy.live.worker_pool import WorkerPool
from kproxy.outputs.stderr import warn
from kproxy.proxy import tap_messages
from kproxy.trace.encoding import parse_line
from kproxy.trace.lines import (
    FRAME_LINES,
    CloseLine,
    Detail,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    RepeatEntry,
)

#: Messages at which the time of stalls advances, as in `Inspector`.
_TIMED: Final = (tap_messages.TapData, tap_messages.Open, tap_messages.Close, tap_messages.Query)


class PooledSink(InspectionSink):
    """Passes the tap's messages to workers, and writes their lines."""

    _pool: WorkerPool

    def _begin(
        self,
        options: InspectorOptions,
        hello: tap_messages.Hello,
        selector: selectors.BaseSelector,
        relay_ended: Callable[[], bool],
    ) -> WorkerPool:
        self._stall_lines = StallLines()
        self._causes: BoundedDict[str, int] = BoundedDict(MAX_CAUSES)  # the time of their last finding (ns)
        self._repeated: dict[str, Counter[tuple[str, str]]] = {}  # by open connection
        self._in_flight: dict[int, int] = {}  # by worker, as of the last tick
        self._put_at = hello.at
        encodes = options.detail is Detail.SUMMARY and options.output.quiet and not options.output.json
        encodes = encodes and not options.metrics

        def run(sock: socket.socket) -> None:
            inspector = inspector_of(options, hello, partial=True)
            work(sock, Worker(inspector, encodes=encodes, sample=hello.sample, activity=self._activity))

        self._pool = WorkerPool(options.workers, run, self._replied, warn, relay_ended, self._activity)
        self._selector = selector
        selector.register(self._pool.fileno(), selectors.EVENT_READ, lambda _events: self._receive())
        return self._pool

    @property
    def is_whole(self) -> bool:
        """Whether no worker has ended early."""
        return not self._pool.restarts

    @property
    def worker_restarts(self) -> int:
        """How often one of several inspectors was restarted."""
        return self._pool.restarts

    @property
    def in_flight(self) -> int:
        """Requests without a response, as of the last tick."""
        return sum(self._in_flight.values())

    def observe(self, message: tap_messages.Message) -> None:
        """Take one message of the tap after the first."""
        self._put_at = message.at
        try:
            self._pool.put(message)
        except (OSError, WorkerLost):
            raise
        except Exception as error:  # noqa: BLE001  # as in `MessageInspection.lines`
            self._take_all(self._inspector.fail("inspecting a message of the relay", error, at=message.at))

    def flush(self) -> None:
        """Write everything that workers have replied."""
        self._pool.flush()
        super().flush()

    def tick(self) -> None:
        """Do periodic work; call it every second."""
        self._in_flight = {pid: self._in_flight.get(pid, 0) for pid in self._pool.pids}
        self._pool.query(TICK, self._put_at)
        super().tick()

    def idle(self) -> None:
        """The tap was idle for `IDLE_NS`, so everything up to then has arrived: check deadlines."""
        self._pool.drain()
        self._pool.query(TICK, max(self._at, time.time_ns()) - IDLE_NS)
        self._pool.drain()
        super().idle()

    def close(self) -> None:
        """The relay has ended: close connections, workers, trace and viewers; show the summary."""
        self._pool.drain()
        self._take_all(self._stalls("tick", at=self._at))
        for number in self._pool.open_numbers:
            self._pool.put(tap_messages.Close(number, self._at, None, "proxy ended", 0, 0))
        self._pool.query(TICK, self._at)
        self._pool.drain()
        self._take_all(self._stalls("end", at=self._at))
        self._selector.unregister(self._pool.fileno())
        self._pool.close()
        super().close()

    def give_up(self) -> None:
        """The inspector has failed: keep what it has seen. Workers end with this process."""
        with suppress(KeyError, ValueError):  # unless `close` has failed
            self._selector.unregister(self._pool.fileno())
        super().give_up()

    def _receive(self) -> None:
        self._pool.exchange()
        super().flush()

    def _replied(self, message: tap_messages.Message, reply: Reply | None, moved: Iterable[int]) -> None:
        """Write the lines of a message."""
        kind, at = type(message), message.at
        if kind is not tap_messages.Query:
            self._at = at
        if reply is None:
            super().observe(message)
            return
        if at >= self._stall_lines.due and kind in _TIMED:
            self._take_all(self._stalls("tick", at=at))
        lines = self._without_repeats(reply) if reply.causes else reply.lines
        for line in lines:
            if type(line) is bytes:
                self._write(line)
            elif type(line) is GroupLine:
                self._write(line.encoded)
                self._take_all(self._stalls("observe", parse_line(line.encoded), at=at))
            else:
                self._take_all(self._completed(line, at=at))  # type: ignore[arg-type]
        for number in moved:
            self._progress.moved(number)
        if isinstance(message, tap_messages.Open):
            self._progress.opened(message.connection_id, message.slot)
        elif isinstance(message, tap_messages.Close):
            self._progress.closed(message.connection_id)
        elif isinstance(reply.value, WorkerTick):
            self._in_flight[reply.value.pid] = reply.value.in_flight
            self._tally.merge(reply.value.summary)

    def _completed(self, line: Line, *, at: int) -> list[Line]:
        """The line of a worker, and the lines of stalls that it ends."""
        if isinstance(line, CloseLine) and (repeated := self._repeated.pop(line.connection_id, None)):
            repeated += Counter({(each.code, each.name): each.count for each in line.repeated})
            line.repeated = [RepeatEntry(*which, count) for which, count in sorted(repeated.items())]
        if isinstance(line, CloseLine | GapLine) or (isinstance(line, FRAME_LINES) and line.group_id is not None):
            return [line, *self._stalls("observe", line, at=at)]
        return [line]

    def _stalls(self, step: str, *line: Line, at: int) -> list[Line]:
        try:
            lines: list[Line] = getattr(self._stall_lines, step)(*line, at=at)
        except Exception as error:  # noqa: BLE001
            self._stall_lines = StallLines()
            return self._inspector.fail("following a group", error, at=at)
        return lines

    def _without_repeats(self, reply: Reply) -> Sequence[AnyLine]:
        """The lines without findings whose root cause another worker has reported. Close lines get their number."""
        causes = iter(reply.causes)
        lines: list[AnyLine] = []
        for line in reply.lines:
            if isinstance(line, FRAME_LINES):
                line.findings = [each for each in line.findings if self._is_new(next(causes, ""), each, line)]
            elif isinstance(line, FindingLine) and not self._is_new(next(causes, ""), line, line):
                continue
            lines.append(line)
        return lines

    def _is_new(self, cause: str, finding: FindingEntry | FindingLine, line: Line) -> bool:
        at = self._at
        last = self._causes.get(cause)
        self._causes[cause] = at
        if not cause or last is None or at - last > FORGOTTEN_AFTER:
            return True
        self._repeated.setdefault(line.connection_id, Counter())[finding.code, finding.name] += 1
        return False
