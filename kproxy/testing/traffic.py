"""The traffic that passed a relay in this process: its frames, and the findings by root cause."""

# Rule 1: the relay never waits. It leaves bytes in memory; they are inspected when somebody asks, when many wait, and
# at the end.
#
# Rule 2: whoever asks gets everything that was relayed before, so `findings` needs no waiting in tests.
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
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.proxy.tap import Tap
from kproxy.proxy.tap_protocol import TapDecoder
from kproxy.trace.lines import FRAME_LINES, Detail, Line, RequestLine, ResponseLine
from kproxy.verdict.cause import Cause
from kproxy.verdict.causes import Causes

#: Bytes that wait for their inspection before it begins by itself.
_MAX_WAITING: Final = 16 * 1024 * 1024
#: Frames that are kept; of more, the last ones. Findings are of all frames.
FRAMES_KEPT: Final = 100_000


class InspectedTraffic:
    """Inspects what a relay's tap leaves in memory.

    Args:
        name: Prefix of connection ids.
        rules: Limits of rules, each in the form of ``--rule``: ``S091:commits=20``.

    Raises:
        UserError: A rule, limit or value is invalid.
    """

    def __init__(self, name: str, *, rules: Iterable[str] = ()) -> None:
        self._inspector = Inspector(name, Detail.FULL, limits=parse_limits(rules))
        self._messages = MessageInspection(
            self._inspector, ProgressLog(None, self._inspector), sample=None, activity=InspectorActivity()
        )
        self._outbox = _Memory(self._inspect)
        self._decoder = TapDecoder()
        self._name = name
        self._frames: deque[RequestLine | ResponseLine] = deque(maxlen=FRAMES_KEPT)
        self._causes = Causes()
        self._causes.begin(name)
        self._ended = False

    def tap(self) -> Tap:
        """The tap for the relay. Nothing is dropped."""
        return Tap(self._outbox, node=self._name)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the tap's messages that wait for their inspection."""
        return self._outbox.size

    def frames(self) -> list[RequestLine | ResponseLine]:
        """The requests and responses so far, in order; the last `FRAMES_KEPT`."""
        self._inspect()
        return list(self._frames)

    def requests(self, api: str | None = None) -> list[RequestLine]:
        """The requests among the frames, of one API or of all."""
        return [frame for frame in self.frames() if isinstance(frame, RequestLine) and api in (None, frame.api)]

    def responses(self, api: str | None = None) -> list[ResponseLine]:
        """The responses among the frames, of one API or of all."""
        return [frame for frame in self.frames() if isinstance(frame, ResponseLine) and api in (None, frame.api)]

    def findings(self) -> list[Cause]:
        """What was found so far, one for each root cause, the most urgent first; with what is late by now."""
        self._inspect()
        if not self._ended:
            self._add(self._inspector.tick(at=time.time_ns()))
        return self._causes.verdict()

    def end(self) -> None:
        """The relay has ended."""
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
    """What a proxy or broker in this process shows of its traffic."""

    _traffic: InspectedTraffic

    @property
    def frames(self) -> list[RequestLine | ResponseLine]:
        """The requests and responses so far, in order, with their decoded `body`; the last 100,000."""
        return self._traffic.frames()

    def requests(self, api: str | None = None) -> list[RequestLine]:
        """The requests among `frames`, of one API (``Produce``) or of all."""
        return self._traffic.requests(api)

    def responses(self, api: str | None = None) -> list[ResponseLine]:
        """The responses among `frames`, of one API (``Produce``) or of all."""
        return self._traffic.responses(api)

    @property
    def findings(self) -> list[Cause]:
        """What was found so far, one for each root cause, the most urgent first."""
        return self._traffic.findings()


class _Memory:
    """Keeps the tap's messages until they are taken. It counts as empty, so that the tap drops nothing."""

    queued = 0

    def __init__(self, on_many: Callable[[], None]) -> None:
        self._on_many = on_many
        self._waiting = bytearray()
        self._scheduled = False

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return len(self._waiting)

    def put(self, buffer: bytes) -> None:
        """Keep a buffer."""
        self._waiting += buffer
        if len(self._waiting) > _MAX_WAITING and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._on_many)

    def take(self) -> bytes:
        """Everything since the last call."""
        buffered, self._waiting, self._scheduled = bytes(self._waiting), bytearray(), False
        return buffered

    async def close(self, within: float) -> bool:
        """Do nothing: the messages are read in this process."""
        return True

    def abandon(self) -> None:
        """Drop the messages that wait."""
        self._waiting.clear()
