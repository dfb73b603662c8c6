"""Inspects the traffic of a live proxy, and passes the lines to the trace, the terminal, metrics and viewers."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dissectors.connections.events import INSPECTOR_WAS_RESTARTED
from kproxy.control.protocol import PROTOCOL, Greeting, Listening
from kproxy.control.server import ControlServer
from kproxy.control.watch_state import WorkerLost
from kproxy.live.local_source import LocalSource
from kproxy.live.message_inspection import run_gap
from kproxy.live.options import InspectorOptions, node_name
from kproxy.live.pooled_source import PooledSource
from kproxy.live.terminal import Terminal
from kproxy.outputs.console import stderr_console
from kproxy.outputs.stderr import warn
from kproxy.proxy import tap_messages
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.trace.formatting import safe
from kproxy.trace.shared_line import SharedLine
from kproxy.trace.timestamps import timestamp
from kproxy.trace.writer import TraceWriter
from kproxy.version import __version__

if TYPE_CHECKING:
    from kproxy.live.inspector_metrics import InspectorMetrics


class InspectionSink:
    """Takes lines from a source and gives each to all consumers, which share its encodings.

    Args:
        options: What to do with the traffic.
        hello: The tap's first message.
        selector: The selector of the event loop, which also serves the control socket.
        relay_ended: Returns whether the relay has ended.
        table: Where to store the progress of the inspection, for the next inspector.
    """

    def __init__(
        self,
        options: InspectorOptions,
        hello: tap_messages.Hello,
        selector: selectors.BaseSelector,
        *,
        relay_ended: Callable[[], bool] = lambda: False,
        table: InspectedTable | None = None,
    ) -> None:
        self._hello = hello
        self._detail = options.detail
        self._terminal = Terminal(options)
        self._source: LocalSource | PooledSource
        if options.workers == 1:
            self._source = self._local = LocalSource(options.inspector(hello), hello, self, table)
        else:
            self._source = PooledSource(
                options, hello, self, table, summary=self._terminal.summary, selector=selector, relay_ended=relay_ended
            )
            self._local = self._source.local
        node = node_name(hello.node)
        self._trace: TraceWriter | None = None
        if options.directory is not None:
            lost = 0 if table is None else table.lost_lines()
            self._trace = TraceWriter(
                options.directory, node=node, compress=options.compress, lost=lost, state=options.trace_state, warn=warn
            )
        self._control: ControlServer | None = None
        if options.control is not None:
            greeting, watched = _greeting(options, hello, node), self._source.watched
            self._control = ControlServer(
                options.control, selector, greeting, watched, relay_ended=relay_ended, causes=self._terminal.causes
            )
        self._trace_state = options.trace_state
        self._lost_before = options.trace_state.lost_lines  # by earlier inspectors
        self._metrics: InspectorMetrics | None = None
        if options.metrics:
            self._metrics = _open_metrics(self, self._source)
        if hello.restarts:
            outage_s = (hello.at - hello.lost_at) / 1e9
            self.take(
                [
                    SharedLine(
                        run_gap(hello.at, f"{INSPECTOR_WAS_RESTARTED}: nothing was inspected for {outage_s:.3f} s")
                    )
                ]
            )

    @property
    def is_whole(self) -> bool:
        """Whether no inspecting process has ended early."""
        return not self._source.restarts

    @property
    def has_failed(self) -> bool:
        """Whether there was a finding at or above `--fail-on`."""
        return self._terminal.has_failed

    def lasting(self) -> Mapping[tuple[str, str], int]:
        """Return the number of requests and groups that are currently stalled, by code and severity of the finding."""
        return self._terminal.causes.lasting()

    @property
    def lost_lines(self) -> int:
        """Lines missing from the trace because they could not be written, since this inspector began."""
        return self._trace_state.lost_lines - self._lost_before

    def observe(self, message: tap_messages.Message) -> None:
        """Inspect a message of the tap, except the first one."""
        self._source.observe(message)

    def announce_listeners(self, message: tap_messages.ListenersChanged) -> None:
        """Send viewers the relay's listeners, which have changed."""
        if self._control is not None:
            self._control.announce_listeners([Listening(*pair) for pair in message.listeners])

    def take(self, lines: Iterable[SharedLine]) -> None:
        """Pass lines to all consumers.

        A bug that a line triggers is reported once per run; if reporting it also fails, the inspector fails. OSErrors
        are raised, because their cause is the disk or the terminal, not a line. WorkerLost is also raised.
        """
        for line in lines:
            try:
                self._take(line)
            except (OSError, WorkerLost):
                raise
            except Exception as error:  # noqa: BLE001
                for finding in self._local.fail("handling a line", error):
                    self._take(finding)

    def _take(self, line: SharedLine) -> None:
        if self._metrics is not None:
            self._metrics.add(line.line)
        self._terminal.take(line)
        if self._trace is not None:
            self._trace.add_encoded(line.encoded(self._detail), at=self._local.at)
        if self._control is not None:
            self._control.publish(line)

    def metrics_text(self) -> bytes | None:
        """Return the figures for Prometheus, or None if they are not counted."""
        return None if self._metrics is None else self._metrics.text()

    def flush(self) -> None:
        """Write out everything received so far."""
        self._source.flush()
        if self._trace is not None:
            self._trace.flush(at=self._local.at)
        if self._trace is None or not self._trace.is_holding:
            self._local.progress.store(0 if self._trace is None else self._trace.lost)
        if self._control is not None:
            self._control.flush()
        self._terminal.flush()

    def tick(self) -> None:
        """Do periodic work; called every second."""
        self._source.tick()
        for waiting in self._source.watched.late_responses(at=self._local.at):
            at = self._local.at
            if self._control is not None:
                self._control.announce_late(waiting, at=at)
            self._terminal.show_waiting(waiting, timestamp(at))
        self._terminal.flush()
        if self._control is not None:
            self._control.tick()

    def on_idle(self) -> None:
        """Check deadlines, because the tap was idle for `IDLE_NS`, so everything up to that time has arrived."""
        self._source.on_idle()
        self.flush()
        if self._trace is not None:
            self._trace.tick(at=self._local.at)

    def give_up(self) -> None:
        """Keep the lines of the failed inspector, and add one which says that later traffic is missing."""
        self._source.give_up()
        at = self._local.at
        gap = SharedLine(run_gap(at, "the inspector failed: later traffic is missing"))
        if self._trace is not None:
            self._trace.add_encoded(gap.encoded(self._detail), at=at)
        if self._control is not None:
            self._control.publish(gap)
        self._close_for_the_next()

    def _close_for_the_next(self) -> None:
        """Close trace and viewers so that another inspector can continue."""
        if self._trace is not None:
            self._trace.close(at=self._local.at)
        self._local.progress.store(0 if self._trace is None else self._trace.lost)
        if self._control is not None:
            self._control.close(remove=False)

    def leave(self) -> None:
        """Keep the lines so far, and show their summary; another inspector accounts for the rest of the traffic."""
        self._source.give_up()
        self._close_for_the_next()
        self._terminal.close()
        self._show_summary()

    def close(self, *, with_summary: bool = True) -> None:
        """Once the relay has ended, close connections, trace and viewers, and show the summary."""
        self._source.close()
        self._terminal.close()
        if self._trace is not None:
            self._trace.close(at=self._local.at)
        if self._control is not None:
            self._control.close()
        if not with_summary:
            return
        lost = self._trace_state.lost_lines
        messages = self._local.messages
        if self._terminal.summary.connections or messages.missed_count or messages.unsampled_count or lost:
            self._show_summary()

    def _show_summary(self) -> None:
        console = stderr_console()
        missed_count, unsampled_count = self._local.messages.missed_count, self._local.messages.unsampled_count
        with suppress(OSError):  # like `warn`
            console.print()
            if self._hello.restarts:
                restarts = self._hello.restarts
                count_text = "once" if restarts == 1 else f"{restarts} times"
                start_text = timestamp(self._hello.at)[11:19]
                console.print(f"since {start_text} UTC: the inspector was restarted {count_text}", highlight=False)
            self._terminal.summary.show(console)
            if self._hello.sample is not None:
                unsampled_text = "" if unsampled_count is None else f"; {unsampled_count} connections were left out"
                console.print(
                    f"sample: {100 * self._hello.sample:.4g}% of all connections{unsampled_text}", highlight=False
                )
            for directory in _trace_directories(self._trace):
                console.print(f"trace: {safe(str(directory))}", highlight=False, markup=False, soft_wrap=True)
        if missed_count:
            connections_text = "connection was" if missed_count == 1 else "connections were"
            warn(f"{missed_count} {connections_text} not inspected: the inspector could not keep up or was restarted")
        if self._trace is not None and (lost := self._trace_state.lost_lines):
            no_trace = "" if self._trace.is_written else f"; there is no trace of this run in {self._trace.directory}"
            lines_text = "line is" if lost == 1 else "lines are"
            warn(f"{lost} trace {lines_text} missing: the trace could not be written, or was deleted{no_trace}")


def _trace_directories(trace: TraceWriter | None) -> list[Path]:
    """Return the directories that contain the trace of this run."""
    if trace is None:
        return []
    return [*([trace.directory] if trace.is_written else []), *dict.fromkeys(trace.moved_to)]


def _open_metrics(sink: InspectionSink, source: LocalSource | PooledSource) -> InspectorMetrics | None:
    try:
        from kproxy.live.inspector_metrics import InspectorMetrics
    except ImportError:  # the relay reports the missing extra
        return None
    return InspectorMetrics(lambda: source.in_flight, lambda: sink.lost_lines, lambda: source.restarts, sink.lasting)


def _greeting(options: InspectorOptions, hello: tap_messages.Hello, node: str) -> Greeting:
    return Greeting(
        kproxy=__version__,
        protocol=PROTOCOL,
        pid=hello.pid,
        node=node,
        started=timestamp(hello.started),
        listeners=[Listening(*pair) for pair in hello.listeners],
        trace=None if options.directory is None else str(options.directory.absolute()),
        detail=options.detail,
        built_in=options.built_in,
        restarts=hello.restarts,
        sample=hello.sample,
        payloads=options.record_values is not None,
    )
