"""The protocol of the control socket, version 1: JSON Lines in both directions. docs/control.md describes it."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

PROTOCOL: Final = 1
MAX_REQUEST_BYTES: Final = 64 * 1024
MAX_VIEWERS: Final = 16
#: Every trace line starts like this, and no reply does.
LINE_START: Final = b'{"kind":'


class ControlError(Exception):
    """A control socket cannot be opened, reached or used. The message is one sentence."""


class Listening(Struct):
    """A listener and its upstream, as addresses."""

    listen: str
    upstream: str


class Greeting(Struct):
    """The first line that a proxy sends.

    `started` is a timestamp as in a trace, `trace` the directory of the trace or null, `detail` its detail. With
    `built_in`, the upstream is the built-in broker, which has no address but the listener's. `restarts` counts earlier
    inspectors, whose lines are not in the backlog; `sample` is the share of connections that is inspected, or None for
    all. With `payloads`, records are decoded.
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
    payloads: bool = False

    @property
    def pairs(self) -> list[str]:
        """``LISTENER -> UPSTREAM`` for each listener."""
        return [
            f"{listener.listen} -> {'built-in Kafka' if self.built_in else listener.upstream}"
            for listener in self.listeners
        ]


class ListenersUpdate(Struct):
    """A line without `id` for watching viewers: all listeners, after some were opened, retargeted or closed."""

    listeners: list[Listening]


class LateResponse(Struct):
    """A request whose response is late: the oldest unanswered one on its connection.

    `ts` is the timestamp of the request, `at` the time of this report, `others` the number of requests waiting behind
    it. `wait` is a `dissectors.trackers.waits.WaitKind`, `why` the evidence as clauses.
    """

    connection_id: str
    correlation_id: int | None
    ts: str
    at: str
    others: int
    wait: str
    why: str


class LateUpdate(Struct):
    """A line without `id` for watching viewers: a response is late, or later by another step.

    New viewers get it again.
    """

    late: LateResponse


class Refusal(Struct):
    """A line without `id`: the reason the proxy closes this connection."""

    error: str


class ControlRequest(Struct):
    """The fields that every request has. The fields of its command are on the same level."""

    do: str
    id: int | str | None = None


def parse_greeting(line: bytes) -> Greeting:
    """Parse the first line that a proxy sends.

    Raises:
        ControlError: It is not a greeting, has another protocol version, or is a refusal.
    """
    try:
        greeting = msgspec.json.decode(line, type=Greeting)
    except (msgspec.DecodeError, ValueError):  # in msgspec 0.20, DecodeError is not a ValueError
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
