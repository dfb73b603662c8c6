"""Writes the lines of a live proxy to trace files, to the terminal, and to viewers."""

from __future__ import annotations

import re
import selectors
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dissectors.connections.events import RESTARTED
from kproxy import __version__
from kproxy.control.control_socket import ControlSocket
from kproxy.control.protocol import PROTOCOL, Greeting, Listening
from kproxy.control.server import ControlServer
from kproxy.control.summary import has_decoded_records, strip, take_frame
from kproxy.control.watched import WorkerLost
from kproxy.inspection.inspector import Inspector
from kproxy.live.message_inspection import MessageInspection, run_gap
from kproxy.live.progress import ProgressLog
from kproxy.outputs.console import stderr_console
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions, output_for
from kproxy.outputs.rate_limit import RateLimit
from kproxy.outputs.run_summary import RunSummary
from kproxy.outputs.stderr import warn
from kproxy.outputs.streams import error_text, give_up_output
from kproxy.proxy import tap_messages
from kproxy.proxy.inspected import InspectedTable
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.encoding import encode_line
from kproxy.trace.formatting import safe
from kproxy.trace.lines import Detail, Line
from kproxy.trace.state import TraceState
from kproxy.trace.timestamps import timestamp
from kproxy.trace.writer import TraceWriter

if TYPE_CHECKING:
    from kproxy.inspection.record_values import RecordValues
    from kproxy.live.inspector_metrics import InspectorMetrics
    from kproxy.live.worker_pool import WorkerPool

#: Seconds in which a proxy ends, whatever its inspector does.
END_TIMEOUT_S: Final = 10.0
#: The tap is idle after this time without a message.
IDLE_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class InspectorOptions:
    """What the inspector's process does with the traffic.

    Attributes:
        output: How the terminal shows it.
        selection: Which findings are shown.
        detail: How much of each frame the trace has.
        directory: Of the trace; None writes none.
        compress: Whether the trace is compressed.
        trace_state: Shared with the relay: lost lines, and whether the trace can be written.
        control: The socket for viewers.
        built_in: Whether the upstream is the built-in broker.
        metrics: Whether to count for Prometheus, which needs the extra of that name.
        record_values: Decodes keys and values. Its source of schemas must not wait for a network.
        workers: The number of processes that inspect; 1 inspects in the process that writes the lines.
        end_timeout: Seconds for the inspector to finish after the relay has ended.
    """

    output: OutputOptions
    selection: Selection
    detail: Detail
    directory: Path | None = None
    compress: bool = False
    control: ControlSocket | None = None
    built_in: bool = False
    metrics: bool = False
    record_values: RecordValues | None = None
    workers: int = 1
    trace_state: TraceState = field(default_factory=TraceState)
    end_timeout: float = END_TIMEOUT_S


class InspectionSink:
    """Inspects the tap's messages, and writes the resulting lines.

    Args:
        options: What to do with the traffic.
        hello: The tap's first message.
        selector: Of the event loop, which also serves the control socket.
        relay_ended: Returns whether the relay has ended.
        table: Where to store how far the inspection is, for the next inspector.
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
        self._selection = options.selection
        self._output = output_for(options.output, sys.stdout, self._selection)
        self._shown = True
        self._throttle = RateLimit(sys.stdout)
        self._detail = options.detail
        self._decodes_records = options.record_values is not None
        node = node_name(hello.node)
        self._inspector = inspector_of(options, hello)
        self._activity = InspectorActivity() if table is None else table.activity
        self._watched = self._begin(options, hello, selector, relay_ended)
        self._trace: TraceWriter | None = None
        if options.directory is not None:
            lost = 0 if table is None else table.lost_lines()
            self._trace = TraceWriter(
                options.directory,
                node=node,
                compress=options.compress,
                lost=lost,
                state=options.trace_state,
                warn=warn,
            )
        self._control: ControlServer | None = None
        if options.control is not None:
            self._control = ControlServer(
                options.control, selector, _greeting(options, hello, node), self._watched, relay_ended=relay_ended
            )
        self._tally = RunSummary()
        self._trace_state = options.trace_state
        self._lost_before = options.trace_state.lost_lines  # by earlier inspectors
        self._metrics: InspectorMetrics | None = None
        if options.metrics:
            self._metrics = _metrics_of(self)
        self._at = hello.at
        self._progress = ProgressLog(table, self._watched)
        self._messages = MessageInspection(
            self._inspector, self._progress, sample=hello.sample, activity=self._activity
        )
        self._hello = hello
        if hello.restarts:
            outage_s = (hello.at - hello.lost_at) / 1e9
            self._take_all([run_gap(hello.at, f"{RESTARTED}: nothing was inspected for {outage_s:.3f} s")])

    def _begin(
        self,
        options: InspectorOptions,
        hello: tap_messages.Hello,
        selector: selectors.BaseSelector,
        relay_ended: Callable[[], bool],
    ) -> Inspector | WorkerPool:
        """Return what has the state of connections."""
        return self._inspector

    @property
    def is_whole(self) -> bool:
        """Whether no process of the inspection has ended early."""
        return True

    @property
    def in_flight(self) -> int:
        """Requests without a response."""
        return self._inspector.in_flight

    @property
    def worker_restarts(self) -> int:
        """How often one of several inspectors was restarted."""
        return 0

    def observe(self, message: tap_messages.Message) -> None:
        """Take one message of the tap after the first."""
        self._at = message.at
        if isinstance(message, tap_messages.ListenersChanged) and self._control is not None:
            self._control.announce_listeners([Listening(*pair) for pair in message.listeners])
        self._activity.reach(getattr(message, "connection_id", 0))
        self._take_all(self._messages.lines(message))
        self._messages.add_progress(message)
        self._activity.finish_message()

    def _take_all(self, lines: Iterable[Line]) -> None:
        """Take lines. A bug that a line triggers is reported once per run; if that fails too, the inspector has failed.

        An OSError is raised: its cause is the disk or the terminal, and not a line. So is a WorkerLost.
        """
        for line in lines:
            try:
                self._take(line)
            except (OSError, WorkerLost):
                raise
            except Exception as error:  # noqa: BLE001
                for finding in self._inspector.fail("handling a line", error, at=self._at):
                    self._take(finding)

    def _take(self, line: Line) -> None:
        frame = None if self._detail is Detail.RAW else take_frame(line)  # it is only for viewers
        if self._metrics is not None:
            self._metrics.add(line)
        selected = self._selection.of(line)  # the trace has all of them
        if selected is not None:
            self._tally.add(selected)
            if self._shown and self._output.shows(selected) and self._throttle.allows():
                self._show(partial(self._output.write, selected))
        if self._trace is None and self._control is None:
            return
        whole = None if self._detail is Detail.SUMMARY else encode_line(line)
        if self._detail is Detail.RAW:
            frame = take_frame(line)
        decoded = None
        if self._control is not None and self._decodes_records and has_decoded_records(line):
            decoded = encode_line(line) if self._detail is Detail.RAW else whole
        strip(line)
        self._write(encode_line(line), whole, frame, decoded)

    def _write(
        self, summary: bytes, whole: bytes | None = None, frame: str | None = None, decoded: bytes | None = None
    ) -> None:
        """Write an encoded line. At other details than `Detail.SUMMARY`, the trace gets `whole`.

        Viewers get `frame` and `decoded` as by `ControlServer.publish`.
        """
        if self._trace is not None:
            self._trace.add_encoded(whole or summary, at=self._at)
        if self._control is not None:
            self._control.publish(summary, frame, decoded)

    def _show(self, act: Callable[[], object]) -> None:
        """Use the output. If its reader leaves (`| head`) or its disk is full, the trace continues."""
        if not self._shown:
            return
        try:
            act()
        except OSError as error:
            self._shown = False
            give_up_output()
            if not isinstance(error, BrokenPipeError):
                warn(f"output stopped: {error_text(error)}")

    @property
    def lost_lines(self) -> int:
        """Lines that the trace lacks because they could not be written, since this inspector began."""
        return self._trace_state.lost_lines - self._lost_before

    def metrics_text(self) -> bytes | None:
        """The figures for Prometheus; None if they are not counted."""
        return None if self._metrics is None else self._metrics.text()

    def flush(self) -> None:
        """Write everything received so far."""
        if self._trace is not None:
            self._trace.flush(at=self._at)
        if self._trace is None or not self._trace.is_holding:
            self._progress.store(0 if self._trace is None else self._trace.lost)
        if self._control is not None:
            self._control.flush()
        self._show(self._output.close)

    def tick(self) -> None:
        """Do periodic work; call it every second."""
        for waiting in self._watched.still_waiting(at=self._at):
            if self._control is not None:
                self._control.announce_late(waiting, at=self._at)
            if self._shown and self._throttle.allows():
                self._show(partial(self._output.still_waiting, waiting, timestamp(self._at)))
        self._show(self._output.flush)
        if self._control is not None:
            self._control.tick()

    def idle(self) -> None:
        """The tap was idle for `IDLE_NS`, so everything up to then has arrived: check deadlines."""
        self._at = max(self._at, time.time_ns())
        self._take_all(self._inspector.tick(at=self._at - IDLE_NS))
        self.flush()
        if self._trace is not None:
            self._trace.tick(at=self._at)

    def give_up(self) -> None:
        """The inspector has failed: keep what it has seen, with a line that says that more is missing."""
        gap = run_gap(self._at, "the inspector failed: later traffic is missing")
        if self._trace is not None:
            self._trace.add(gap, at=self._at)
            self._trace.close(at=self._at)
        self._progress.store(0 if self._trace is None else self._trace.lost)
        if self._control is not None:
            self._control.publish(encode_line(gap), None)
            self._control.close(remove=False)

    def close(self) -> None:
        """The relay has ended: close connections, trace and viewers; show the summary."""
        self._take_all(self._inspector.close_all(at=self._at, how="proxy ended"))
        self._throttle.close()
        self._show(self._output.close)
        if self._trace is not None:
            self._trace.close(at=self._at)
        if self._control is not None:
            self._control.close()
        lost = self._trace_state.lost_lines
        if self._tally.connections or self._messages.missed or self._messages.left_out or lost:
            self._show_summary()

    def _show_summary(self) -> None:
        console = stderr_console()
        missed, left_out = self._messages.missed, self._messages.left_out
        with suppress(OSError):  # as `warn`
            console.print()
            if self._hello.restarts:
                restarts = self._hello.restarts
                count = "once" if restarts == 1 else f"{restarts} times"
                since = timestamp(self._hello.at)[11:19]
                console.print(f"since {since} UTC: the inspector was restarted {count}", highlight=False)
            self._tally.show(console)
            if self._hello.sample is not None:
                more = "" if left_out is None else f"; {left_out} connections were left out"
                console.print(f"sample: {100 * self._hello.sample:.4g}% of all connections{more}", highlight=False)
            for place in _places(self._trace):
                console.print(f"trace: {safe(str(place))}", highlight=False, markup=False, soft_wrap=True)
        if missed:
            warn(f"{missed} connections were not inspected: the inspector could not keep up or was restarted")
        if self._trace is not None and (lost := self._trace_state.lost_lines):
            rest = "" if self._trace.is_written else f"; there is no trace of this run in {self._trace.directory}"
            warn(f"{lost} trace lines are missing: the trace could not be written, or was deleted{rest}")


def _places(trace: TraceWriter | None) -> list[Path]:
    """The directories that have the trace of this run."""
    if trace is None:
        return []
    return [*([trace.directory] if trace.is_written else []), *dict.fromkeys(trace.moved_to)]


def node_name(host: str) -> str:
    """The name of this proxy in connection ids and file names."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", host) or "node"


def inspector_of(options: InspectorOptions, hello: tap_messages.Hello, *, partial: bool = False) -> Inspector:
    """The inspector for all connections of a relay, or with `partial` for a part of them."""
    detail = output_for(options.output, sys.stdout, options.selection).detail(options.detail)
    return Inspector(
        f"{node_name(hello.node)}-{hello.pid}",
        detail,
        record_values=options.record_values,
        withholds_records=options.record_values is None and detail is not Detail.RAW,
        partial=partial,
    )


def _metrics_of(sink: InspectionSink) -> InspectorMetrics | None:
    try:
        from kproxy.live.inspector_metrics import InspectorMetrics
    except ImportError:  # the relay reports the missing extra
        return None
    return InspectorMetrics(lambda: sink.in_flight, lambda: sink.lost_lines, lambda: sink.worker_restarts)


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
