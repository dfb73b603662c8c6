"""What can be asked of a running proxy: a command is a Struct of its fields that knows how to be done.

Fields have defaults, and those that a command does not know are passed over, so that kproxys of any age understand
each other. A new one is a class here and a row in `COMMANDS`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from kproxy.control.server import ControlServer
    from kproxy.control.viewer import Viewer
    from kproxy.inspection.inspector import OpenConnection

#: Of one connection, so many unanswered requests are listed, the oldest first.
MOST_IN_FLIGHT: Final = 20

#: Sends the fields of the reply.
Reply = Callable[..., None]


class Command(Protocol):
    """The fields of a request, and what to do."""

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        """Do it, and reply once: what was asked for, or an `error`."""


class ListConnections(Struct):
    """The connections that are open now."""

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        reply(connections=[_connection(each) for each in server.inspector.open_now()])


class WatchLines(Struct):
    """Send lines from now on: with `frames` their frames too, with `backlog` first what led up to now."""

    frames: bool = False
    backlog: bool = False

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        reply(watching=True)
        server.watch(viewer, frames=self.frames, backlog=self.backlog)


class Unwatch(Struct):
    """Send no more lines."""

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        server.unwatch(viewer)
        reply(watching=False)


class Stop(Struct):
    """End the proxy as Ctrl-C does: at once."""

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        pid = server.greeting.pid
        if os.getppid() != pid:
            reply(error=f"the relay (process {pid}) has already ended")
            return
        reply(stopping=True)
        os.kill(pid, signal.SIGINT)


COMMANDS: Final[dict[str, type[Command]]] = {
    "connections": ListConnections,
    "watch": WatchLines,
    "unwatch": Unwatch,
    "stop": Stop,
}


def _connection(found: OpenConnection) -> dict[str, Any]:
    opened = found.opened
    return {
        "connection_id": opened.connection_id,
        "client": opened.client,
        "server": opened.server,
        "listener": opened.listener,
        "tls": opened.tls,
        "opened": opened.ts,
        "request_bytes": found.bytes[0],
        "response_bytes": found.bytes[1],
        "requests": found.frames[0],
        "responses": found.frames[1],
        "unanswered": found.in_flight,
        "in_flight": [
            {
                "api": request.api,
                "api_version": request.api_version,
                "correlation_id": request.correlation_id,
                "ts": request.ts,
                "client_id": request.client_id,
            }
            for request in islice(found.waiting, MOST_IN_FLIGHT)
        ],
    }
