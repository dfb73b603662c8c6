"""The inspector's process: a loop around the tap and the control socket."""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
import time
from typing import Final, NoReturn

from kproxy.control.watch_state import WorkerLost
from kproxy.live.failure import report_failure
from kproxy.live.local_source import IDLE_NS
from kproxy.live.options import InspectorOptions
from kproxy.live.sink import InspectionSink
from kproxy.outputs.stderr import warn
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.proxy.inspector_figures import FiguresWriter
from kproxy.proxy.loop import keep_freed_memory

#: Exit status of an inspector that has failed and reported the reason.
FAILED = 1
#: Exit status of an inspector that has seen everything, including a finding at or above `--fail-on`.
FOUND = 3
#: Exit status of an inspector that has ended at the relay's request, with a summary but without the rest of the tap.
LEFT = 5

_READ_BYTES: Final = 1 << 20
_SECOND = IDLE_NS / 1e9
_HUNG_UP = select.POLLHUP | select.POLLERR


def ignore_stop_signals() -> None:
    """Ignore the signals that end the relay, because its other processes end when it does.

    These processes have their own process groups, so they are in the background of a terminal; ignoring SIGTTOU lets
    them write to it.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)


def inspect(options: InspectorOptions, tap: socket.socket, table: InspectedTable) -> NoReturn:
    """Inspect the tap's messages until its end, then end this process.

    This way, the trace is completed even if the relay is killed.
    """
    keep_freed_memory()
    table.activity.begin(os.getpid())
    status = FAILED
    try:
        status = _InspectorLoop(options, tap, table).run()
    except WorkerLost as error:
        warn(str(error))
    except Exception as error:  # noqa: BLE001  # there is no caller to handle it
        report_failure(error)
    finally:
        os._exit(status)


class _InspectorLoop:
    """Reads the tap and serves viewers."""

    def __init__(self, options: InspectorOptions, tap: socket.socket, table: InspectedTable) -> None:
        self._options = options
        self._tap = tap
        self._table = table
        self._selector = selectors.DefaultSelector()
        self._buffer = memoryview(bytearray(_READ_BYTES))  # new memory for each read would cost page faults
        self._decoder = tap_protocol.TapDecoder()
        self._sink: InspectionSink | None = None
        self._figures = FiguresWriter(tap)
        self._received_at = time.monotonic()
        self._ended = False

    def run(self) -> int:
        """Run until the tap ends; return the exit status: 0 or `FOUND` if everything was inspected, else `LEFT`."""
        self._tap.setblocking(False)
        self._selector.register(self._tap, selectors.EVENT_READ, self._receive)
        try:
            try:
                self._turn()
            finally:
                self._selector.unregister(self._tap)
            if self._sink is not None and self._is_leaving:
                self._sink.leave()
                self._table.activity.has_left = True
                return LEFT
            if self._sink is not None:
                self._sink.close(with_summary=not self._table.activity.has_left)
        except Exception:
            if self._sink is not None:
                self._sink.give_up()
            raise
        if self._sink is None:
            return 0
        if not self._sink.is_whole:
            return FAILED
        return FOUND if self._sink.has_failed else 0

    def _turn(self) -> None:
        ticked_at = time.monotonic()
        while not self._ended and not self._is_leaving:
            for key, events in self._selector.select(_SECOND):
                key.data(events)
            now = time.monotonic()
            self._table.activity.count_turn()
            if self._sink is None or self._ended:
                continue
            if now - self._received_at >= _SECOND and not self._is_readable():
                self._received_at = now
                self._sink.on_idle()
            if now - ticked_at >= _SECOND:
                ticked_at = now
                self._sink.tick()
                self._send_figures(self._sink)

    @property
    def _is_leaving(self) -> bool:
        """Whether the rest of the tap is left to the inspector that writes gap lines."""
        return not self._ended and self._table.activity.must_leave

    def _is_readable(self) -> bool:
        """Return whether data has arrived since the last check, for example while this process was stopped."""
        poll = select.poll()
        poll.register(self._tap, select.POLLIN)
        return bool(poll.poll(0))

    def _send_figures(self, sink: InspectionSink) -> None:
        if self._figures.is_ready() and (text := sink.metrics_text()) is not None:
            self._figures.send(text)

    def _receive(self, _events: int) -> None:
        try:
            size = self._tap.recv_into(self._buffer)
        except BlockingIOError:
            return
        except ConnectionError:
            size = 0
        self._ended = not size
        for message in self._decoder.receive_data(self._buffer[:size]):
            if self._is_leaving:
                return
            if isinstance(message, tap_messages.Hello):
                self._sink = InspectionSink(
                    self._options, message, self._selector, relay_ended=self._relay_ended, table=self._table
                )
                self._table.activity.finish_message()
            elif self._sink is not None:
                self._sink.observe(message)
        if self._sink is not None:
            self._sink.flush()
        self._received_at = time.monotonic()

    def _relay_ended(self) -> bool:
        """Return whether the other end of the tap is closed, even if data is left to read."""
        poll = select.poll()
        poll.register(self._tap, 0)
        return self._ended or any(events & _HUNG_UP for _, events in poll.poll(0))
