"""The server of the control socket, which runs in the event loop of the inspector's process and never blocks."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kproxy.control.backlog import Backlog
from kproxy.control.commands import COMMANDS
from kproxy.control.control_socket import ControlSocket
from kproxy.control.protocol import MAX_VIEWERS, ControlRequest, Greeting, LateResponse, Listening
from kproxy.control.viewer import Viewer
from kproxy.control.watch_state import WatchedInspector, WorkerLost
from kproxy.inspection.late_responses import WaitingResponse
from kproxy.trace.lines import Detail
from kproxy.trace.shared_line import SharedLine
from kproxy.trace.timestamps import timestamp
from kproxy.verdict.causes import Causes

_GRACE_S: Final = 1.0  # how long viewers can read the rest when the proxy ends
_CREDENTIALS: Final = struct.Struct("3i")  # SO_PEERCRED: pid, uid, gid
_MAX_ECHOED: Final = 50  # characters of a request that an error message repeats at most


class ControlServer:
    """Accepts viewers, answers their requests, and sends trace lines to watching viewers.

    Args:
        control: The bound socket. `close` closes and removes it.
        selector: The selector of the event loop, which calls the `data` of each ready key with its events.
        greeting: The first line for every viewer.
        inspector: The inspector that makes the lines. Its `frames` is true while a viewer watches with frames.
        relay_ended: Returns whether the relay, whose process is in `greeting`, has ended.
        causes: The causes of the findings so far.
    """

    def __init__(
        self,
        control: ControlSocket,
        selector: selectors.BaseSelector,
        greeting: Greeting,
        inspector: WatchedInspector,
        *,
        relay_ended: Callable[[], bool] = lambda: False,
        causes: Causes | None = None,
    ) -> None:
        self.relay_ended = relay_ended
        self.causes = Causes() if causes is None else causes
        self.greeting = greeting
        self.inspector = inspector
        self._control = control
        self._selector = selector
        self._viewers: list[Viewer] = []
        self._watching: list[Viewer] = []
        self._backlog = Backlog()
        self._accepting = False
        self._start_accepting()

    def publish(self, line: SharedLine) -> None:
        """Keep the summary of a line for later viewers, and send the line to watching viewers in the form they want."""
        self._backlog.add(line.encoded(Detail.SUMMARY))
        for viewer in tuple(self._watching):
            viewer.put(line.for_viewer(payloads=viewer.wants_payloads, frames=viewer.wants_frames))

    def announce_listeners(self, listeners: list[Listening]) -> None:
        """Send the changed listeners to watching viewers, and include them in the greeting of later viewers."""
        self.greeting = replace(self.greeting, listeners=listeners)
        for viewer in tuple(self._watching):
            self._update_listeners(viewer)

    def announce_late(self, waiting: WaitingResponse, *, at: int) -> None:
        """Send a late response to watching viewers; `at` in ns since the epoch."""
        for viewer in tuple(self._watching):
            viewer.reply(late=_late_response(waiting, at))

    def flush(self) -> None:
        """Send the data buffered for watching viewers."""
        for viewer in tuple(self._watching):
            viewer.flush()

    def tick(self) -> None:
        """Do periodic work; called every second."""
        self._start_accepting()
        for viewer in tuple(self._viewers):
            viewer.tick()

    def watch(self, viewer: Viewer, *, frames: bool, backlog: bool, payloads: bool) -> None:
        """Start sending lines to a viewer."""
        if frames:
            self.inspector.frames = True  # so that the backlog also has frames
        # Asking workers for their open connections also makes pending lines arrive, which are published at once. They
        # reach the backlog before it is read, so this viewer gets them from there and starts watching only afterwards.
        recent = list(self._backlog.lines(self.inspector, frames=frames)) if backlog else []
        viewer.is_watching, viewer.wants_frames, viewer.wants_payloads = True, frames, payloads
        self._update_watching()
        self._update_listeners(viewer)
        for line in recent:
            viewer.put(line)
        now = time.time_ns()
        for waiting in self.inspector.late_responses(at=now, repeat_reported=True):
            viewer.reply(late=_late_response(waiting, now))

    def unwatch(self, viewer: Viewer) -> None:
        """Stop sending lines to a viewer."""
        viewer.is_watching = viewer.wants_frames = False
        self._update_watching()

    def close(self, *, remove: bool = True) -> None:
        """Close all viewers; they have one second to read what is left. Remove the socket unless `remove` is false."""
        self._stop_accepting()
        if remove:
            self._control.remove()
        for viewer in tuple(self._viewers):
            viewer.end()
        deadline = time.monotonic() + _GRACE_S
        while self._viewers and (remaining := deadline - time.monotonic()) > 0:
            for key, events in self._selector.select(remaining):
                key.data(events)
        for viewer in tuple(self._viewers):
            viewer.close()

    def _accept(self, _events: int) -> None:
        try:
            sock, _ = self._control.socket.accept()
        except BlockingIOError:
            return
        except OSError:  # no file descriptor is available: retry in a second
            self._stop_accepting()
            return
        viewer = Viewer(sock, self._selector, self._handle_request, self._forget)
        self._viewers.append(viewer)
        if not _is_allowed(sock):
            viewer.end("this proxy belongs to another user")
        elif len(self._viewers) > MAX_VIEWERS:
            viewer.end(f"{MAX_VIEWERS} viewers are already connected, which is the maximum")
        else:
            viewer.listeners = self.greeting.listeners
            viewer.reply(**msgspec.to_builtins(self.greeting))
            viewer.flush()

    def _start_accepting(self) -> None:
        if not self._accepting:
            self._accepting = True
            self._selector.register(self._control.socket, selectors.EVENT_READ, self._accept)

    def _stop_accepting(self) -> None:
        if self._accepting:
            self._accepting = False
            self._selector.unregister(self._control.socket)

    def _handle_request(self, viewer: Viewer, line: bytes) -> None:
        try:
            request = msgspec.json.decode(line, type=ControlRequest)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            viewer.end(f"invalid request: {error}")
            return
        try:
            self._run_command(viewer, request, line)
        except WorkerLost:  # it ends the inspection
            raise
        except Exception as error:  # noqa: BLE001  # an error with one viewer must not end the trace
            viewer.end(f"{type(error).__name__}: {error}; this is a bug in kproxy")

    def _run_command(self, viewer: Viewer, request: ControlRequest, line: bytes) -> None:
        reply: Callable[..., Any] = partial(viewer.reply, id=request.id)
        command_class = COMMANDS.get(request.do)
        if command_class is None:
            name, command_names = request.do[:_MAX_ECHOED], ", ".join(COMMANDS)
            reply(error=f"unknown command {name!r}; kproxy {self.greeting.kproxy} has {command_names}")
            return
        try:
            command = msgspec.json.decode(line, type=command_class)
        except msgspec.ValidationError as error:
            reply(error=f"{request.do}: {error}")
            return
        command.run(self, viewer, reply)

    def _update_listeners(self, viewer: Viewer) -> None:
        if viewer.listeners is not self.greeting.listeners:
            viewer.listeners = self.greeting.listeners
            viewer.reply(listeners=msgspec.to_builtins(viewer.listeners))
            viewer.flush()

    def _forget(self, viewer: Viewer) -> None:
        self._viewers.remove(viewer)
        self._update_watching()

    def _update_watching(self) -> None:
        self._watching = [viewer for viewer in self._viewers if viewer.is_watching]
        if (wants_frames := any(viewer.wants_frames for viewer in self._watching)) != self.inspector.frames:
            self.inspector.frames = wants_frames


def _late_response(waiting: WaitingResponse, at: int) -> LateResponse:
    request, _, other_count, wait = waiting
    return LateResponse(
        request.connection_id, request.correlation_id, request.ts, timestamp(at), other_count, wait.kind, wait.text
    )


def _is_allowed(sock: socket.socket) -> bool:
    """Return whether the peer is this user or root. Without SO_PEERCRED, the mode of the directory decides."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(credentials)[1] in (0, os.geteuid())
