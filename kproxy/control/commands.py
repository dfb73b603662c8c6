"""The commands of the control socket. A command is a Struct with its fields and a method that runs it.

Fields have defaults, and unknown fields are ignored, so that different versions of kproxy understand each other. To add
a command, write a class here and add a row to `COMMANDS`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

from msgspec import Meta, Struct

from kproxy.verdict.as_json import cause_as_json

if TYPE_CHECKING:
    from kproxy.control.server import ControlServer
    from kproxy.control.viewer import Viewer
    from kproxy.inspection.inspected_connection import OpenConnection

#: At most this many unanswered requests are listed per connection, the oldest first.
MAX_IN_FLIGHT: Final = 20

#: The most causes that a reply can list, and the number that it lists by default.
MAX_CAUSES: Final = 1000
DEFAULT_CAUSES: Final = 100

#: Sends a reply with these fields.
Reply = Callable[..., None]


class Command(Protocol):
    """A command with its fields."""

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        """Run the command and reply once, with its result or an `error`."""


class Ping(Struct):
    """Reply, to show that the inspector responds."""

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        reply()


class ListConnections(Struct):
    """List the open connections."""

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        reply(connections=[_connection_as_json(connection) for connection in server.inspector.open_connections()])


class ListCauses(Struct):
    """List what is wrong: the causes of all findings so far, the most urgent first, each followed by its consequences.

    The reply has the first `most` causes, and their total number as `found`.
    """

    most: Annotated[int, Meta(ge=0, le=MAX_CAUSES)] = DEFAULT_CAUSES

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        causes = server.causes.sorted_causes()
        reply(found=len(causes), causes=[cause_as_json(cause) for cause in causes[: self.most]])


class WatchLines(Struct):
    """Send trace lines from now on.

    With `frames`, lines have their frames; with `payloads`, bodies with decoded records, if the proxy decodes them.
    With `backlog`, recent lines come first.
    """

    frames: bool = False
    backlog: bool = False
    payloads: bool = False

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        reply(watching=True)
        server.watch(viewer, frames=self.frames, backlog=self.backlog, payloads=self.payloads)


class Unwatch(Struct):
    """Stop sending lines."""

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        server.unwatch(viewer)
        reply(watching=False)


class Stop(Struct):
    """End the proxy at once, as Ctrl-C does."""

    def run(self, server: ControlServer, viewer: Viewer, reply: Reply) -> None:
        pid = server.greeting.pid
        if server.relay_ended():
            reply(error=f"the relay (process {pid}) has already ended")
            return
        reply(stopping=True)
        os.kill(pid, signal.SIGINT)


COMMANDS: Final[dict[str, type[Command]]] = {
    "connections": ListConnections,
    "causes": ListCauses,
    "watch": WatchLines,
    "unwatch": Unwatch,
    "stop": Stop,
    "ping": Ping,
}


def _connection_as_json(connection: OpenConnection) -> dict[str, Any]:
    opened = connection.opened
    return {
        "connection_id": opened.connection_id,
        "client": opened.client,
        "server": opened.server,
        "listener": opened.listener,
        "tls": opened.tls,
        "opened": opened.ts,
        "request_bytes": connection.bytes[0],
        "response_bytes": connection.bytes[1],
        "requests": connection.frames[0],
        "responses": connection.frames[1],
        "unanswered": connection.in_flight,
        "in_flight": [
            {
                "api": request.api,
                "api_version": request.api_version,
                "correlation_id": request.correlation_id,
                "ts": request.ts,
                "client_id": request.client_id,
            }
            for request in islice(connection.waiting, MAX_IN_FLIGHT)
        ],
    }
