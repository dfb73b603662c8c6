"""The proxy's side of the control socket, in the inspector's process: a part of its loop that never waits."""

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

from kproxy.control.backlog import Backlog
from kproxy.control.commands import COMMANDS
from kproxy.control.control_socket import ControlSocket
from kproxy.control.protocol import MAX_VIEWERS, ControlRequest, Greeting
from kproxy.control.summary import with_frame
from kproxy.control.viewer import Viewer
from kproxy.inspection.inspector import Inspector

_GRACE_S: Final = 1.0  # for viewers to take what is left, when the proxy ends
_CREDENTIALS: Final = struct.Struct("3i")  # of SO_PEERCRED: pid, uid, gid
_MOST_TOLD: Final = 50  # characters of what a viewer sent that it is told again


class ControlServer:
    """Takes viewers, answers them, and sends lines to those who watch.

    Args:
        control: Closed and removed by `close`.
        selector: That of the loop, which calls the data of what is ready with the events.
        greeting: What every viewer is told first.
        inspector: Whose lines these are; its `frames` is on while a viewer wants them.
        relay_ended: Whether the process that `greeting` names is gone.
    """

    def __init__(
        self,
        control: ControlSocket,
        selector: selectors.BaseSelector,
        greeting: Greeting,
        inspector: Inspector,
        *,
        relay_ended: Callable[[], bool] = lambda: False,
    ) -> None:
        self.relay_ended = relay_ended
        self.greeting = greeting
        self.inspector = inspector
        self._control = control
        self._selector = selector
        self._viewers: list[Viewer] = []
        self._watching: list[Viewer] = []
        self._backlog = Backlog()
        self._accepting = False
        self._accept_again()

    def tell(self, line: bytes, frame: str | None) -> None:
        """Send a line, encoded at the detail `summary`, and the base64 of its frame to those who want it."""
        self._backlog.add(line)
        framed = None
        for viewer in tuple(self._watching):
            if frame is not None and viewer.frames:
                framed = framed or with_frame(line, frame)
                viewer.put(framed)
            else:
                viewer.put(line)

    def flush(self) -> None:
        """What was told so far goes out."""
        for viewer in tuple(self._watching):
            viewer.flush()

    def tick(self) -> None:
        """A second has passed."""
        self._accept_again()
        for viewer in tuple(self._viewers):
            viewer.tick()

    def watch(self, viewer: Viewer, *, frames: bool, backlog: bool) -> None:
        """Send lines to a viewer from now on."""
        viewer.watching, viewer.frames = True, frames
        self._see_who_watches()
        if backlog:
            for line in self._backlog.lines(self.inspector, frames=frames):
                viewer.put(line)

    def unwatch(self, viewer: Viewer) -> None:
        """Send it no more."""
        viewer.watching = viewer.frames = False
        self._see_who_watches()

    def close(self, *, remove: bool = True) -> None:
        """Viewers get what is left to send, within a second. The socket goes, unless another server will follow."""
        self._stop_accepting()
        if remove:
            self._control.remove()
        for viewer in tuple(self._viewers):
            viewer.end()
        end = time.monotonic() + _GRACE_S
        while self._viewers and (left := end - time.monotonic()) > 0:
            for key, events in self._selector.select(left):
                key.data(events)
        for viewer in tuple(self._viewers):
            viewer.close()

    def _accept(self, _events: int) -> None:
        try:
            sock, _ = self._control.socket.accept()
        except BlockingIOError:
            return
        except OSError:  # no file descriptors are left: try again in a second
            self._stop_accepting()
            return
        viewer = Viewer(sock, self._selector, self._answer, self._forget)
        self._viewers.append(viewer)
        if not _is_allowed(sock):
            viewer.end("this proxy belongs to another user")
        elif len(self._viewers) > MAX_VIEWERS:
            viewer.end(f"{MAX_VIEWERS} viewers are already connected, which is the maximum")
        else:
            viewer.reply(**msgspec.to_builtins(self.greeting))
            viewer.flush()

    def _accept_again(self) -> None:
        if not self._accepting:
            self._accepting = True
            self._selector.register(self._control.socket, selectors.EVENT_READ, self._accept)

    def _stop_accepting(self) -> None:
        if self._accepting:
            self._accepting = False
            self._selector.unregister(self._control.socket)

    def _answer(self, viewer: Viewer, line: bytes) -> None:
        try:
            asked = msgspec.json.decode(line, type=ControlRequest)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            viewer.end(f"invalid request: {error}")
            return
        try:
            self._do(viewer, asked, line)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this viewer's and must not end the trace
            viewer.end(f"{type(error).__name__}: {error}; this is a bug in kproxy")

    def _do(self, viewer: Viewer, asked: ControlRequest, line: bytes) -> None:
        reply: Callable[..., Any] = partial(viewer.reply, id=asked.id)
        command = COMMANDS.get(asked.do)
        if command is None:
            name, known = asked.do[:_MOST_TOLD], ", ".join(COMMANDS)
            reply(error=f"unknown command {name!r}; kproxy {self.greeting.kproxy} has {known}")
            return
        try:
            fields = msgspec.json.decode(line, type=command)
        except msgspec.ValidationError as error:
            reply(error=f"{asked.do}: {error}")
            return
        fields.run(self, viewer, reply)

    def _forget(self, viewer: Viewer) -> None:
        self._viewers.remove(viewer)
        self._see_who_watches()

    def _see_who_watches(self) -> None:
        self._watching = [viewer for viewer in self._viewers if viewer.watching]
        if (frames := any(viewer.frames for viewer in self._watching)) != self.inspector.frames:
            self.inspector.frames = frames


def _is_allowed(sock: socket.socket) -> bool:
    """Whether it is the same user or root; where the system does not say, the directory's mode does."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(credentials)[1] in (0, os.geteuid())
