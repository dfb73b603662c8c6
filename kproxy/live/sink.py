"""Where the lines of a live proxy go: trace files, the terminal, viewers."""

from __future__ import annotations

import re
import selectors
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dissectors.connections.events import BEHIND, RESTARTED, TlsFailed
from dissectors.connections.tls_failures import TlsReason
from kproxy import __version__
from kproxy.control.control_socket import ControlSocket
from kproxy.control.protocol import PROTOCOL, Greeting, Listening
from kproxy.control.server import ControlServer
from kproxy.control.summary import strip
from kproxy.inspection.inspector import Inspector, Progress
from kproxy.live.progress import ProgressLog
from kproxy.outputs.console import stderr_console
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions, output_for
from kproxy.outputs.rate_limit import RateLimit
from kproxy.outputs.run_summary import RunSummary
from kproxy.outputs.stderr import warn
from kproxy.outputs.streams import error_text, give_up_output
from kproxy.proxy import tap_protocol
from kproxy.proxy.inspected import InspectedTable
from kproxy.trace.encoding import encode_line
from kproxy.trace.lines import FORMAT, Detail, GapLine, Line, RequestLine, ResponseLine
from kproxy.trace.timestamps import timestamp
from kproxy.trace.writer import TraceWriter

if TYPE_CHECKING:
    from kproxy.live.inspector_metrics import InspectorMetrics

#: After so long without a word from the tap it counts as idle.
IDLE_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class InspectorOptions:
    """What the inspector's process does with the traffic.

    `output` and `selection` say what is shown, `detail` is how much of each frame the trace has. The trace is written
    to `directory`, compressed if `compress` is set; None writes none. `built_in` is true if the built-in broker is
    upstream. `metrics` has it count for Prometheus, which needs the extra of that name.
    """

    output: OutputOptions
    selection: Selection
    detail: Detail
    directory: Path | None = None
    compress: bool = False
    control: ControlSocket | None = None
    built_in: bool = False
    metrics: bool = False


class InspectionSink:
    """Takes what the tap says, message by message.

    Args:
        watch: What to do with it.
        hello: The tap's first message.
        selector: Of the loop that serves the control socket too.
        relay_ended: Whether the relay is gone.
        table: Where to store how far the inspection has come, for an inspector that continues it.
    """

    def __init__(
        self,
        watch: InspectorOptions,
        hello: tap_protocol.Hello,
        selector: selectors.BaseSelector,
        *,
        relay_ended: Callable[[], bool] = lambda: False,
        table: InspectedTable | None = None,
    ) -> None:
        self._selection = watch.selection
        self._output = output_for(watch.output, sys.stdout, self._selection)
        self._shown = True
        self._throttle = RateLimit(sys.stdout)
        self._detail = watch.detail
        node = re.sub(r"[^A-Za-z0-9.-]", "-", hello.node) or "node"
        self._inspector = Inspector(f"{node}-{hello.pid}", self._output.detail(self._detail))
        self._trace: TraceWriter | None = None
        if watch.directory is not None:
            self._trace = TraceWriter(watch.directory, node=node, compress=watch.compress, warn=warn)
        self._control: ControlServer | None = None
        if watch.control is not None:
            self._control = ControlServer(
                watch.control, selector, _greeting(watch, hello, node), self._inspector, relay_ended=relay_ended
            )
        self._tally = RunSummary()
        self._metrics: InspectorMetrics | None = None
        if watch.metrics:
            self._metrics = _metrics_of(self._inspector)
        self._at = hello.at
        self._missed = 0
        self._left_out: int | None = None
        self._progress = ProgressLog(table, self._inspector)
        self._hello = hello
        if hello.restarts:
            self._take_all([_gap(hello.at, 0, 0, f"{RESTARTED}: nothing was inspected for {_outage_s(hello):.3f} s")])

    def observe(self, message: tap_protocol.Message) -> None:
        """Take one message of the tap."""
        self._at = message.at
        try:
            lines = self._lines(message)
        except Exception as error:  # noqa: BLE001  # a bug that one message provokes: the others are still inspected
            lines = self._inspector.fail("inspecting a message of the relay", error, at=self._at)
        self._take_all(lines)
        if isinstance(message, tap_protocol.TapData | tap_protocol.TapSkipped | tap_protocol.TapGap):
            self._progress.moved(message.connection_id)
        elif isinstance(message, tap_protocol.Close):
            self._progress.closed(message.connection_id)

    def _lines(self, message: tap_protocol.Message) -> list[Line]:
        inspector = self._inspector
        if isinstance(message, tap_protocol.TapData):
            return inspector.data(message.connection_id, message.direction, message.payload, at=message.at)
        if isinstance(message, tap_protocol.Open):
            self._progress.opened(message.connection_id, message.slot)
            resumed = None
            if message.resumed is not None:
                resumed = Progress(*message.resumed[0]), Progress(*message.resumed[1])
            return inspector.open(
                message.connection_id, message.client, message.server, at=message.at, listener=message.listener,
                tls=message.tls, resumed=resumed, sample=self._hello.sample,
            )  # fmt: skip
        if isinstance(message, tap_protocol.TapSkipped):
            return inspector.skip(
                message.connection_id, message.direction, message.head, message.size, at=message.at, reason=BEHIND
            )
        if isinstance(message, tap_protocol.TapGap):
            # After a restart, no frames means that no boundaries are known.
            frames = message.frames or None if message.restarted else message.frames
            return inspector.lose(
                message.connection_id, message.direction, message.size, at=message.at,
                reason=RESTARTED if message.restarted else BEHIND, frames=frames,
            )  # fmt: skip
        if isinstance(message, tap_protocol.Close):
            return inspector.close(message.connection_id, at=message.at, by=message.by, how=message.how)
        if isinstance(message, tap_protocol.TapTlsFailed):
            return inspector.tls_failed(message.connection_id, TlsFailed(
                message.at, message.side, message.by, TlsReason(message.reason), message.name, message.detail
            ))  # fmt: skip
        if isinstance(message, tap_protocol.TapReplaced):
            inspector.replace_next(message.connection_id, message.direction, message.frame)
        if isinstance(message, tap_protocol.Missed):
            self._missed += message.connections
            self._progress.missed(message.connections, message.size, message.frames)
            reason = RESTARTED if message.restarted else BEHIND
            count = f"{message.connections} connection{'' if message.connections == 1 else 's'} came and went unseen"
            return [_gap(message.at, message.size, message.frames, f"{reason}: {count}")]
        if isinstance(message, tap_protocol.Bye):
            self._left_out = message.left_out
        return []

    def _take_all(self, lines: Iterable[Line]) -> None:
        """Take lines. A bug that one provokes is reported once in a run; if that fails too, the inspector has failed.

        An OSError is not of one line: the disk or the terminal is.
        """
        for line in lines:
            try:
                self._take(line)
            except OSError:
                raise
            except Exception as error:  # noqa: BLE001
                for finding in self._inspector.fail("handling a line", error, at=self._at):
                    self._take(finding)

    def _take(self, line: Line) -> None:
        frame = None
        if isinstance(line, RequestLine | ResponseLine) and self._detail is not Detail.RAW:
            frame, line.frame = line.frame, None  # it was made for viewers
        if self._metrics is not None:
            self._metrics.add(line)
        selected = self._selection.of(line)  # the trace has them all
        if selected is not None:
            self._tally.add(selected)
            if self._shown and self._throttle.allows():
                self._show(lambda: self._output.write(selected))
        if self._trace is None and self._control is None:
            return
        whole = None if self._detail is Detail.SUMMARY else encode_line(line)
        frame = strip(line) or frame
        summary = encode_line(line)
        if self._trace is not None:
            self._trace.add_encoded(whole or summary, at=self._at)
        if self._control is not None:
            self._control.publish(summary, frame)

    def _show(self, act: Callable[[], object]) -> None:
        """Use the output; its reader may leave (`| head`), its disk be full, while the trace goes on."""
        if not self._shown:
            return
        try:
            act()
        except OSError as error:
            self._shown = False
            give_up_output()
            if not isinstance(error, BrokenPipeError):
                warn(f"output stopped: {error_text(error)}")

    def metrics_text(self) -> bytes | None:
        """What was counted for Prometheus, None if that is not wanted."""
        return None if self._metrics is None else self._metrics.text()

    def flush(self) -> None:
        """Write out everything received so far."""
        if self._trace is not None:
            self._trace.flush(at=self._at)
        if self._trace is None or not self._trace.is_holding:
            self._progress.store()
        if self._control is not None:
            self._control.flush()
        self._show(self._output.close)

    def tick(self) -> None:
        """A second has passed."""
        for waiting in self._inspector.still_waiting(at=self._at):
            if self._shown and self._throttle.allows():
                self._show(partial(self._output.still_waiting, waiting, timestamp(self._at)))
        self._show(self._output.flush)
        if self._control is not None:
            self._control.tick()

    def idle(self) -> None:
        """The tap was silent for a while, so everything up to then has been received: let deadlines pass."""
        self._at = max(self._at, time.time_ns())
        self._take_all(self._inspector.tick(at=self._at - IDLE_NS))
        self.flush()
        if self._trace is not None:
            self._trace.tick(at=self._at)

    def give_up(self) -> None:
        """The inspector has failed: what it has seen until now is kept, and that there was more."""
        gap = GapLine(v=FORMAT, ts=timestamp(self._at), connection_id="", direction="both", bytes=0,
                      reason="the inspector failed: later traffic is missing")  # fmt: skip
        if self._trace is not None:
            self._trace.add(gap, at=self._at)
            self._trace.close(at=self._at)
        self._progress.store()
        if self._control is not None:
            self._control.publish(encode_line(gap), None)
            self._control.close(remove=False)

    def close(self) -> None:
        """The relay is gone: end what is open, finish the trace, let viewers go, show the summary."""
        self._take_all(self._inspector.close_all(at=self._at, how="proxy ended"))
        self._throttle.close()
        self._show(self._output.close)
        if self._trace is not None:
            self._trace.close(at=self._at)
        if self._control is not None:
            self._control.close()
        if not self._tally.connections and not self._missed and not self._left_out:
            return  # nothing happened, e.g. because the relay could not start
        console = stderr_console()
        with suppress(OSError):  # as `warn`
            console.print()
            if self._hello.restarts:
                restarts = self._hello.restarts
                count = "once" if restarts == 1 else f"{restarts} times"
                since = timestamp(self._hello.at)[11:19]
                console.print(f"since {since} UTC: the inspector was restarted {count}", highlight=False)
            self._tally.show(console)
            if self._hello.sample is not None:
                left_out = "" if self._left_out is None else f"; {self._left_out} connections were left out"
                console.print(f"sample: {100 * self._hello.sample:.4g}% of all connections{left_out}", highlight=False)
            if self._trace is not None and not self._trace.lost:
                console.print(f"trace: {self._trace.directory}", highlight=False, soft_wrap=True)
        if self._missed:
            warn(f"{self._missed} connections were not inspected: the inspector could not keep up or was restarted")
        if self._trace is not None and self._trace.lost:
            warn(f"{self._trace.lost} trace lines are missing: the trace could not be written")


def _metrics_of(inspector: Inspector) -> InspectorMetrics | None:
    try:
        from kproxy.live.inspector_metrics import InspectorMetrics
    except ImportError:  # the relay reports what is missing to those who ask for metrics
        return None
    return InspectorMetrics(lambda: inspector.in_flight)


def _greeting(watch: InspectorOptions, hello: tap_protocol.Hello, node: str) -> Greeting:
    return Greeting(
        kproxy=__version__,
        protocol=PROTOCOL,
        pid=hello.pid,
        node=node,
        started=timestamp(hello.started),
        listeners=[Listening(*pair) for pair in hello.listeners],
        trace=None if watch.directory is None else str(watch.directory.absolute()),
        detail=watch.detail,
        built_in=watch.built_in,
        restarts=hello.restarts,
        sample=hello.sample,
    )


def _gap(at: int, size: int, frames: int, reason: str) -> GapLine:
    """A gap of no single connection."""
    return GapLine(
        v=FORMAT, ts=timestamp(at), connection_id="", direction="both", bytes=size, frames=frames, reason=reason
    )


def _outage_s(hello: tap_protocol.Hello) -> float:
    return (hello.at - hello.lost_at) / 1e9
