"""The traffic that passed through a relay in this process: its frames, and the findings by root cause."""

# Rule 1: the relay never waits. It leaves bytes in memory, which are inspected when results are requested, when too
# many bytes are waiting, and at the end.
#
# Rule 2: results cover everything that clients had sent before the call, so tests need not wait before `findings`. A
# client does not wait for a response to acks=0, so its request may be on its way: `settle` reads it first.
#
# Rule 3: all methods run in the thread of the relay's loop.

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from kproxy.inspection.inspector import Inspector
from kproxy.live.message_inspection import MessageInspection
from kproxy.live.progress import ProgressLog
from kproxy.outputs.rule_limits import parse_limits
from kproxy.proxy.client_connections import ClientConnections
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.proxy.tap import Tap
from kproxy.proxy.tap_protocol import TapDecoder
from kproxy.trace.lines import FRAME_LINES, Detail, Line, RequestLine, ResponseLine
from kproxy.verdict.cause import Cause
from kproxy.verdict.causes import Causes

#: If more bytes than this are waiting, their inspection begins by itself.
_MAX_WAITING: Final = 16 * 1024 * 1024
#: The last frames, up to this number, are kept. Findings cover all frames.
FRAMES_KEPT: Final = 100_000
#: Traffic has settled when nothing arrives in three rounds. Rounds are counted, because they take longer on a busy
#: machine, as everything does.
_ROUND_S: Final = 0.003
_QUIET_ROUNDS: Final = 3
_MAX_ROUNDS: Final = 100


class InspectedTraffic:
    """Inspects the messages that a relay's tap leaves in memory.

    Args:
        name: Prefix of connection ids.
        rules: Limits of rules, each as for ``--rule``: ``S091:commits=20``.

    Raises:
        UserError: A rule, limit or value is invalid.
    """

    def __init__(self, name: str, *, rules: Iterable[str] = ()) -> None:
        self._inspector = Inspector(name, Detail.FULL, limits=parse_limits(rules))
        self._messages = MessageInspection(
            self._inspector, ProgressLog(None, self._inspector), sample=None, activity=InspectorActivity()
        )
        self._outbox = _MemoryOutbox(self._inspect)
        self._decoder = TapDecoder()
        self._name = name
        self._frames: deque[RequestLine | ResponseLine] = deque(maxlen=FRAMES_KEPT)
        self._causes = Causes()
        self._causes.begin(name)
        self._ended = False

    def tap(self) -> Tap:
        """Return the tap for the relay. It drops nothing."""
        return Tap(self._outbox, node=self._name)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the tap's messages that are waiting for inspection."""
        return self._outbox.size

    @property
    def received_bytes(self) -> int:
        """The bytes of all messages of the tap so far."""
        return self._outbox.received_bytes

    def frames(self) -> list[RequestLine | ResponseLine]:
        """Return the requests and responses so far, in order; at most the last `FRAMES_KEPT`."""
        self._inspect()
        return list(self._frames)

    def requests(self, api: str | None = None) -> list[RequestLine]:
        """Return the requests among the frames, for one API or for all."""
        return [frame for frame in self.frames() if isinstance(frame, RequestLine) and api in (None, frame.api)]

    def responses(self, api: str | None = None) -> list[ResponseLine]:
        """Return the responses among the frames, for one API or for all."""
        return [frame for frame in self.frames() if isinstance(frame, ResponseLine) and api in (None, frame.api)]

    def findings(self) -> list[Cause]:
        """Return the findings so far, with responses that are late now: one per root cause, the most urgent first."""
        self._inspect()
        if not self._ended:
            self._add(self._inspector.tick(at=time.time_ns()))
        return self._causes.verdict()

    def end(self) -> None:
        """Inspect the rest and close all connections once the relay has ended."""
        self._inspect()
        self._add(self._inspector.close_all(at=time.time_ns(), how="proxy ended"))
        self._ended = True

    def _inspect(self) -> None:
        for message in self._decoder.receive_data(self._outbox.take()):
            self._add(self._messages.lines(message))
        self._add(self._inspector.flush())

    def _add(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._causes.add(line)
            if isinstance(line, FRAME_LINES):
                self._frames.append(line)


class Inspected:
    """The traffic of a proxy or broker in this process: its frames and findings."""

    _traffic: InspectedTraffic
    _clients: ClientConnections | None = None  # of the relay, from the start of the block on

    @property
    def frames(self) -> list[RequestLine | ResponseLine]:
        """The requests and responses so far, in order, with their decoded `body`; at most the last 100,000."""
        return self._traffic.frames()

    def requests(self, api: str | None = None) -> list[RequestLine]:
        """Return the requests among `frames`, for one API (``Produce``) or for all."""
        return self._traffic.requests(api)

    def responses(self, api: str | None = None) -> list[ResponseLine]:
        """Return the responses among `frames`, for one API (``Produce``) or for all."""
        return self._traffic.responses(api)

    @property
    def findings(self) -> list[Cause]:
        """The findings so far, one for each root cause, the most urgent first."""
        return self._traffic.findings()

    async def settle(self) -> None:
        """Wait until what clients have sent is in `frames`: about 10 ms, or 0.3 s if they do not stop sending.

        It is needed only for requests that have no response (Produce with acks=0); the others were seen before their
        response. In a thread (`InspectedBrokerThread`, `ProxyThread`, the fixtures), it happens by itself.
        """
        quiet = received_bytes = 0
        for _ in range(_MAX_ROUNDS):
            await asyncio.sleep(_ROUND_S)
            is_connecting = self._clients is not None and self._clients.connecting > 0
            quiet = quiet + 1 if self._traffic.received_bytes == received_bytes and not is_connecting else 0
            received_bytes = self._traffic.received_bytes
            if quiet == _QUIET_ROUNDS:
                return


class _MemoryOutbox:
    """Keeps the tap's messages until they are taken. It always claims to be empty, so that the tap drops nothing."""

    queued = 0

    def __init__(self, on_full: Callable[[], None]) -> None:
        self.received_bytes = 0
        self._on_full = on_full
        self._waiting = bytearray()
        self._scheduled = False

    @property
    def size(self) -> int:
        """The number of bytes that are waiting."""
        return len(self._waiting)

    def put(self, buffer: bytes) -> None:
        """Keep a buffer."""
        self.received_bytes += len(buffer)
        self._waiting += buffer
        if len(self._waiting) > _MAX_WAITING and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._on_full)

    def take(self) -> bytes:
        """Return everything since the last call."""
        buffered, self._waiting, self._scheduled = bytes(self._waiting), bytearray(), False
        return buffered

    async def close(self, timeout_s: float) -> bool:
        """Do nothing: the messages are read in this process."""
        return True

    def abandon(self) -> None:
        """Drop the waiting messages."""
        self._waiting.clear()
