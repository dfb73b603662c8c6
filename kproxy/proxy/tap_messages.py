"""The messages that the relay's tap sends to the inspector's process.

Times `at` are in ns since the epoch.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from dissectors.connections.events import Direction

Resumed: TypeAlias = tuple[tuple[int, int, bool], tuple[int, int, bool]]


class Hello(NamedTuple):
    """The first message: the relay and its listeners, as ``(listener, upstream)``.

    `started` is when the relay began, `restarts` the number of earlier inspectors, `lost_at` when the last of them was
    lost (both ns since the epoch). `sample` is the share of connections that is inspected.
    """

    at: int
    node: str
    pid: int
    listeners: list[tuple[str, str]]
    started: int
    restarts: int = 0
    lost_at: int = 0
    sample: float | None = None


class ListenersChanged(NamedTuple):
    """The relay's listeners have changed: all current ones, as ``(listener, upstream)``."""

    at: int
    listeners: list[tuple[str, str]]


class Open(NamedTuple):
    """A connection was accepted. `server` is the upstream's address, or its name if it is unreachable.

    `tls` says whether the client uses TLS; with `plaintext_upstream`, the relay terminates it and sends plaintext to a
    broker elsewhere. `slot` is the slot of the connection in the `InspectedTable`. If an earlier inspector has seen the
    connection, `resumed` has for each direction the bytes and frames that were inspected, and whether the next byte is
    the first of a frame.
    """

    connection_id: int
    at: int
    client: str
    server: str
    listener: str
    tls: bool
    slot: int | None = None
    resumed: Resumed | None = None
    plaintext_upstream: bool = False


class TapData(NamedTuple):
    """The next bytes of one direction, not aligned to frames."""

    connection_id: int
    direction: Direction
    at: int
    payload: bytes


class TapReplaced(NamedTuple):
    """The frame that the relay sent in place of the next frame of this direction, which follows as `TapData`."""

    connection_id: int
    direction: Direction
    at: int
    frame: bytes


class TapSkipped(NamedTuple):
    """A whole frame that was relayed but not sent here.

    `size` is its length prefix, `head` its first bytes including that prefix, at most `HEAD_BYTES`. `at` is when it
    ended.
    """

    connection_id: int
    direction: Direction
    at: int
    size: int
    head: bytes


class TapGap(NamedTuple):
    """`size` bytes that were relayed but not sent here.

    They are `frames` whole frames, or the rest of the frame whose beginning was in the last `TapData` (`frames` is 0).
    In both cases, the next byte is the first of a frame, unless the stream has no Kafka frames or ended in the gap.
    `restarted` is true if no inspector was running, false if it was too slow.
    """

    connection_id: int
    direction: Direction
    at: int
    size: int
    frames: int
    restarted: bool = False


class End(NamedTuple):
    """One direction ended; `how` is ``fin`` (its sender has finished) or ``reset``."""

    connection_id: int
    direction: Direction
    at: int
    how: str


class TapTlsFailed(NamedTuple):
    """TLS with one side failed; the fields are those of `TlsFailed`."""

    connection_id: int
    at: int
    side: str
    by: str
    reason: str
    name: str | None
    detail: str


class Close(NamedTuple):
    """A connection is closed.

    `by` is who ended it first (client, server, proxy), `how` one of fin, reset, unreachable (the upstream), out of
    descriptors, out of memory (the proxy, which therefore refused the client), tls (no handshake), shutdown (of the
    proxy). The bytes are all those relayed, even if they were not sent here.
    """

    connection_id: int
    at: int
    by: str | None
    how: str
    request_bytes: int
    response_bytes: int


class Behind(NamedTuple):
    """The inspector is so far behind that frames are only counted, which it will learn later; or that is over.

    If it is over, the gaps of all connections have been sent. Until then, a missing response may have been counted.
    """

    at: int
    is_behind: bool


class Missed(NamedTuple):
    """Connections since the last such message that opened and closed while there was no room to announce them.

    `size` and `frames` are totals of both directions. `restarted` is true if no inspector was running.
    """

    at: int
    connections: int
    size: int
    frames: int = 0
    restarted: bool = False


class Bye(NamedTuple):
    """The last message. The bytes and frames dropped are the totals of all `TapSkipped` and `TapGap`.

    `unsampled_count` is the number of connections that were not chosen for inspection.
    """

    at: int
    connections: int
    request_bytes: int
    response_bytes: int
    dropped_bytes: int
    dropped_frames: int
    unsampled_count: int = 0


class Query(NamedTuple):
    """A question of the inspector's process to one of its workers, see `kproxy.live.worker`. The relay sends none."""

    at: int
    what: str
    value: bool = False


Message: TypeAlias = (
    Hello
    | ListenersChanged
    | Open
    | TapData
    | TapReplaced
    | TapSkipped
    | TapGap
    | TapTlsFailed
    | End
    | Close
    | Behind
    | Missed
    | Bye
    | Query
)
