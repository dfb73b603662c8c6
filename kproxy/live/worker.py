"""A worker of the inspector's process: inspects some of the connections (``--inspectors N``).

It gets the tap's messages about its connections, and queries, and replies to each of them in order.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from kproxy.control.backlog import MAX_UNANSWERED
from kproxy.inspection.inspected_connection import Progress
from kproxy.inspection.inspector import Inspector
from kproxy.live.message_inspection import MessageInspection
from kproxy.live.progress import ProgressLog
from kproxy.outputs.run_summary import RunSummary
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.lines import FRAME_LINES, CloseLine, Detail, FindingLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.trace.shared_line import SharedLine

#: What a `Query` asks a worker: to advance the time, to include frames in lines or not, for late responses, for open
#: connections, to take nothing for late or to do so again.
TICK, FRAMES, WAITING, OPEN, BEHIND = "tick", "frames", "waiting", "open", "behind"

LENGTH: Final = struct.Struct(">I")
_ESCAPED: Final = rb"\\"
_CHUNK: Final = 16 * 1024  # bytes; with larger ones, a worker would be idle while its replies are handled


#: Most lines are sent as bytes, encoded as a summary. A `SharedLine` has several encodings, or its line is in a group.
#: A `Line` has findings that may be repeats, or would change if it were encoded and parsed again.
AnyLine: TypeAlias = bytes | SharedLine | Line


class Reply(NamedTuple):
    """The reply to one message: the lines that it completes, and the root causes of their findings; or a `value`."""

    lines: Sequence[AnyLine] = ()
    causes: Sequence[str] = ()
    value: Any = None


class Replies(NamedTuple):
    """The replies to messages that arrived together, and how far the connections they belong to are inspected."""

    replies: list[Reply]
    progress: dict[int, tuple[Progress, Progress]]


class WorkerTick(NamedTuple):
    """The reply to `TICK`: the number of unanswered requests, and a summary of lines encoded since the last tick."""

    pid: int
    in_flight: int
    summary: RunSummary


class _MovedConnections(ProgressLog):
    """Collects the numbers of connections that have progressed; the pool has the table."""

    def __init__(self, inspector: Inspector) -> None:
        super().__init__(None, inspector)
        self.numbers: set[int] = set()

    def record_progress(self, number: int) -> None:
        self.numbers.add(number)


class JudgedRequests:
    """The requests in flight that are late or have findings. Only their responses end their causes or excuse them."""

    def __init__(self) -> None:
        self._offsets: dict[str, set[int]] = {}  # by connection

    def add(self, connection_id: str, offset: int) -> None:
        """Add a request that is in flight."""
        self._offsets.setdefault(connection_id, set()).add(offset)

    def observe(self, line: Line) -> bool:
        """Process the next line; return whether it is the response to one of these requests."""
        if isinstance(line, ResponseLine):
            offsets = self._offsets.get(line.connection_id)
            if offsets is None or line.request_offset not in offsets:
                return False
            offsets.remove(line.request_offset)
            return True
        if isinstance(line, RequestLine):
            if line.findings and line.acks != 0:
                self.add(line.connection_id, line.offset)
        elif isinstance(line, FindingLine):
            if line.direction == "request" and line.offset is not None:
                self.add(line.connection_id, line.offset)
        elif isinstance(line, OpenLine | CloseLine):
            self._offsets.pop(line.connection_id, None)
        return False


class Worker:
    """Replies to messages.

    Args:
        inspector: Makes the lines of some of the connections.
        encodings: The details at which lines of frames without findings are encoded; if empty, they are sent decoded.
        sample: The share of connections that is inspected.
        activity: Where to record the current frame for the relay.
    """

    def __init__(
        self,
        inspector: Inspector,
        *,
        encodings: Sequence[Detail],
        sample: float | None,
        activity: InspectorActivity,
    ) -> None:
        self._inspector = inspector
        self._encodings = encodings
        self._moved = _MovedConnections(inspector)
        self._messages = MessageInspection(inspector, self._moved, sample=sample, activity=activity)
        self._summary = RunSummary()
        self._judged = JudgedRequests()

    def replies(self, messages: list[tap_messages.Message]) -> Replies:
        """Reply to each of these messages."""
        replies: list[Reply] = []
        data_messages: list[tap_messages.TapData] = []
        for message in messages:
            if type(message) is tap_messages.TapData:
                data_messages.append(message)
                continue
            replies += self._replies_to_data(data_messages)
            replies.append(self._reply(message))
            data_messages = []
        replies += self._replies_to_data(data_messages)
        numbers, self._moved.numbers = self._moved.numbers, set()
        progress_by_number = {
            number: progress for number in numbers if (progress := self._inspector.progress(number)) is not None
        }
        return Replies(replies, progress_by_number)

    def _reply(self, message: tap_messages.Message) -> Reply:
        if isinstance(message, tap_messages.Query):
            return self._answer_query(message)
        lines = self._messages.lines(message) + self._inspector.flush()
        self._messages.add_progress(message)
        return self._reply_with(lines) if lines else _EMPTY_REPLY

    def _replies_to_data(self, messages: list[tap_messages.TapData]) -> list[Reply]:
        """Reply to data messages: their frames are decoded together, then judged, then encoded."""
        lines = self._messages.lines_of_each(messages)
        self._moved.numbers.update(message.connection_id for message in messages)
        causes = iter(self._inspector.take_new_causes())
        return [
            self._reply_to_data(message_lines, causes) if message_lines else _EMPTY_REPLY for message_lines in lines
        ]

    def _reply_to_data(self, lines: list[Line], causes: Iterator[str]) -> Reply:
        line_causes = list(islice(causes, sum(map(_finding_count, lines))))
        return Reply([self._encoded_line(line) for line in lines], line_causes)

    def _reply_with(self, lines: list[Line], value: Any = None) -> Reply:
        return Reply([self._encoded_line(line) for line in lines], self._inspector.take_new_causes(), value)

    def _encoded_line(self, line: Line) -> AnyLine:
        if not self._encodings:
            return line
        is_judged = self._judged.observe(line)
        if is_judged or not isinstance(line, FRAME_LINES) or line.findings or line.repeats:
            return line
        shared = SharedLine(line)
        try:
            encoded = [shared.encoded(detail) for detail in self._encodings]
        except Exception:  # noqa: BLE001  # a bug, which the sink reports
            return line
        if _ESCAPED in encoded[0]:  # parsing would not restore a text that is not Unicode
            return line
        self._summary.add(line)
        return encoded[0] if shared.content is Detail.SUMMARY and not shared.in_group else shared

    def _answer_query(self, query: tap_messages.Query) -> Reply:
        inspector = self._inspector
        if query.what == TICK:
            summary, self._summary = self._summary, RunSummary()
            return self._reply_with(inspector.tick(at=query.at), WorkerTick(os.getpid(), inspector.in_flight, summary))
        if query.what == WAITING:
            late_requests = list(inspector.late_responses(at=query.at, repeat_reported=query.value))
            for exchange in late_requests:
                self._judged.add(exchange.request.connection_id, exchange.request.offset)
            return Reply(value=late_requests)
        if query.what == OPEN:
            connections = [
                (connection, list(islice(connection.waiting, MAX_UNANSWERED)))
                for connection in inspector.open_connections()
            ]
            return Reply(
                value=[(connection._replace(waiting=iter(())), waiting) for connection, waiting in connections]
            )
        if query.what == BEHIND:
            inspector.is_behind = query.value
            return _EMPTY_REPLY
        inspector.frames = query.value
        return _EMPTY_REPLY


_EMPTY_REPLY: Final = Reply()


def _finding_count(line: Line) -> int:
    """Return the number of findings of a line, each of which has a cause."""
    return len(line.findings) if isinstance(line, FRAME_LINES) else isinstance(line, FindingLine)


def work(sock: socket.socket, worker: Worker) -> None:
    """Reply to messages until the other end closes the socket."""
    decoder = tap_protocol.TapDecoder()
    while data := _receive(sock):
        if messages := decoder.receive_data(data):
            content = pickle.dumps(worker.replies(messages), pickle.HIGHEST_PROTOCOL)
            try:
                sock.sendall(LENGTH.pack(len(content)) + content)
            except OSError:
                return


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(_CHUNK)
    except OSError:  # the inspector's process has ended, so this is like the end of the stream
        return b""
