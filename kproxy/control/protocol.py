"""The protocol of the control socket, version 1: JSON Lines both ways. docs/control.md has the whole of it."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

PROTOCOL: Final = 1
MAX_REQUEST_BYTES: Final = 64 * 1024
MAX_VIEWERS: Final = 16
#: What a line of the trace begins with, and no reply.
LINE_START: Final = b'{"kind":'


class ControlError(Exception):
    """A control socket cannot be opened, reached or used; one sentence that says why."""


class Listening(Struct):
    """An address that clients connect to, and where that leads."""

    listen: str
    upstream: str


class Greeting(Struct):
    """The first line of a proxy.

    `started` is as in a trace, `trace` the directory or null, `detail` the trace's. With `built_in`, the upstreams are
    internal ports of the built-in broker. `restarts` counts the inspectors before this one, of which the
    backlog knows nothing; `sample` is the share of connections that is inspected, None if all are.
    """

    kproxy: str
    protocol: int
    pid: int
    node: str
    started: str
    listeners: list[Listening]
    trace: str | None
    detail: str
    built_in: bool = False
    restarts: int = 0
    sample: float | None = None

    @property
    def pairs(self) -> list[str]:
        """``LISTENER -> UPSTREAM`` of each listener."""
        return [f"{each.listen} -> {'built-in Kafka' if self.built_in else each.upstream}" for each in self.listeners]


class Refusal(Struct):
    """A line without an `id` that says why this connection ends."""

    error: str


class ControlRequest(Struct):
    """What every request has; the fields of its command stand beside it."""

    do: str
    id: int | str | None = None


def parse_greeting(line: bytes) -> Greeting:
    """Read the first line of a proxy.

    Raises:
        ControlError: It is none, of another protocol, or says why there will be no more.
    """
    try:
        greeting = msgspec.json.decode(line, type=Greeting)
    except (msgspec.DecodeError, ValueError):  # msgspec 0.20: the first is none of the second
        try:
            raise ControlError(msgspec.json.decode(line, type=Refusal).error) from None
        except (msgspec.DecodeError, ValueError):
            raise ControlError("the process that answered is not kproxy") from None
    if greeting.protocol != PROTOCOL:
        raise ControlError(
            f"the proxy runs kproxy {greeting.kproxy} with control protocol {greeting.protocol}, not {PROTOCOL}:"
            " use the same version for both"
        )
    return greeting
