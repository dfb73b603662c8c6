"""The inspector's process: forked from the relay's, and a loop around the tap and the control socket."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kproxy.live.sink import IDLE_NS, InspectionSink, InspectorOptions
from kproxy.outputs.stderr import warn
from kproxy.proxy import tap_protocol
from kproxy.proxy.events import InspectorLost
from kproxy.proxy.inspector_figures import FiguresWriter

_CHUNK = 1 << 20
_SECOND = IDLE_NS / 1e9
_FAILED = 1  # exit status of an inspector that has said why


@dataclass(slots=True)
class InspectorProcess:
    """The inspector's process, as its parent sees it; `tap` is the socket that it listens on."""

    pid: int
    tap: socket.socket
    _status: int | None = None
    _told: bool = False

    def went_well(self) -> bool:
        """Wait for its end; whether it was a good one."""
        return self._ended(0) == 0

    def report_lost(self, reason: str) -> None:
        """Tell the user that it is gone, once, and not if it has said so itself; one that was killed cannot."""
        if not self._told and self._ended(os.WNOHANG) != _FAILED:
            warn(str(InspectorLost(reason)))
        self._told = True

    def _ended(self, options: int) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, options)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status


@contextmanager
def start_inspector(watch: InspectorOptions) -> Iterator[InspectorProcess]:
    """Fork the inspector's process, and wait for it at the end.

    It is forked before there are threads or a loop, and takes the control socket along. It ignores the signals that end
    the relay, and ends when the tap does: so the trace is finished, and the control socket gone, also when the relay is
    killed.
    """
    tap, seen = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        tap.close()
        status = _FAILED
        try:
            _InspectorLoop(watch, seen).run()
            status = 0
        except Exception as error:  # noqa: BLE001  # whatever it is: nobody is left to handle it
            _say_why(error)
        finally:
            if watch.control is not None:
                watch.control.remove()
            os._exit(status)
    seen.close()
    if watch.control is not None:
        watch.control.socket.close()  # when the inspector is gone, viewers must see that
    inspector_process = InspectorProcess(pid, tap)
    try:
        yield inspector_process
    finally:
        tap.close()
        inspector_process.went_well()


def _say_why(error: Exception) -> None:
    if os.environ.get("KPROXY_TRACEBACK"):
        traceback.print_exception(error)
    warn(f"the inspector failed ({type(error).__name__}: {error}): traffic is still relayed, but not shown or traced;"
         " this is a bug in kproxy: set KPROXY_TRACEBACK=1 for a traceback")  # fmt: skip


class _InspectorLoop:
    """Reads the tap and serves viewers."""

    def __init__(self, watch: InspectorOptions, seen: socket.socket) -> None:
        self._watch = watch
        self._seen = seen
        self._selector = selectors.DefaultSelector()
        self._decoder = tap_protocol.TapDecoder()
        self._watcher: InspectionSink | None = None
        self._figures = FiguresWriter(seen)
        self._received_at = time.monotonic()
        self._ended = False

    def run(self) -> None:
        """Until the tap ends."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._seen.setblocking(False)
        self._selector.register(self._seen, selectors.EVENT_READ, self._receive)
        try:
            try:
                self._turn()
            finally:
                self._selector.unregister(self._seen)
            if self._watcher is not None:
                self._watcher.close()
        except Exception:
            if self._watcher is not None:
                self._watcher.give_up()
            raise

    def _turn(self) -> None:
        ticked_at = time.monotonic()
        while not self._ended:
            for key, events in self._selector.select(_SECOND):
                key.data(events)
            now = time.monotonic()
            if self._watcher is None or self._ended:
                continue
            if now - self._received_at >= _SECOND:
                self._received_at = now
                self._watcher.idle()
            if now - ticked_at >= _SECOND:
                ticked_at = now
                self._watcher.tick()
                self._send_figures(self._watcher)

    def _send_figures(self, watcher: InspectionSink) -> None:
        if self._figures.is_ready() and (text := watcher.metrics_text()) is not None:
            self._figures.send(text)

    def _receive(self, _events: int) -> None:
        try:
            data = self._seen.recv(_CHUNK)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        self._ended = not data
        for message in self._decoder.receive_data(data):
            if isinstance(message, tap_protocol.Hello):
                self._watcher = InspectionSink(self._watch, message, self._selector)
            elif self._watcher is not None:
                self._watcher.observe(message)
        if self._watcher is not None:
            self._watcher.flush()
        self._received_at = time.monotonic()
