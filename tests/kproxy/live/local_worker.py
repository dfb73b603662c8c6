"""A worker that runs in the process of the test instead of in a `WorkerProcess`."""

from __future__ import annotations

import os
import pickle
import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from kproxy.control.watch_state import WorkerLost
from kproxy.inspection.inspector import Inspector
from kproxy.live.worker import Worker
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.lines import Detail


class LocalWorker:
    """A worker that replies when the pool waits. Its socket is always readable."""

    lives: ClassVar[list[bool]] = []  # whether each of the next workers stays alive; all later ones do
    detail: ClassVar = Detail.SUMMARY
    encodings: ClassVar[tuple[Detail, ...]] = ()

    def __init__(self, run: Callable[[socket.socket], None], selector: selectors.BaseSelector) -> None:
        self.pid = os.getpid()
        self.lost = bool(self.lives) and not self.lives.pop(0)
        self.unanswered = self.connections = 0
        self.replies: deque[Any] = deque()
        inspector = Inspector("node-1", self.detail, partial=True)
        self._worker = Worker(inspector, encodings=self.encodings, sample=None, activity=InspectorActivity())
        self._decoder = tap_protocol.TapDecoder()
        self._decoder.receive_data(bytes([tap_protocol.VERSION]))
        self._messages: list[tap_messages.Message] = []
        self._selector = selector
        self._readable, self._other = socket.socketpair()
        self._other.send(b"x")
        selector.register(self._readable, selectors.EVENT_READ, self)

    def put(self, header: bytes, payload: bytes = b"") -> None:
        self._messages += self._decoder.receive_data(header + payload)
        self.unanswered += 1

    def send(self) -> None:
        pass

    def exchange(self, _events: int) -> None:
        if self.lost:
            raise WorkerLost
        if self._messages:
            messages, self._messages = self._messages, []
            result = pickle.loads(pickle.dumps(self._worker.replies(messages)))  # as if it were sent between processes
            *replies, last_reply = result.replies
            self.replies.extend([*((reply, {}) for reply in replies), (last_reply, result.progress)])
            self.unanswered = 0

    def close(self) -> int:
        self._selector.unregister(self._readable)
        self._readable.close()
        self._other.close()
        return 9
