"""WorkerPool: passes messages to the workers of the inspector's process; returns their lines in the tap's order."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from kproxy.control.watch_state import WorkerLost
from kproxy.inspection.inspected_connection import OpenConnection, Progress
from kproxy.inspection.late_responses import WaitingResponse
from kproxy.live.restart_policy import RestartPolicy
from kproxy.live.worker import BEHIND, FRAMES, OPEN, WAITING, Reply
from kproxy.live.worker_assignment import WorkerAssignment
from kproxy.live.worker_process import WorkerProcess
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.inspector_activity import InspectorActivity

#: Limits per worker: messages without a reply, and bytes of messages that are not passed on. Beyond these, the pool
#: waits, and new messages queue in the relay.
_MAX_UNANSWERED: Final = 2500
_MAX_BYTES: Final = 8 << 20
#: A worker that does not reply for this long is killed if the relay has ended.
_REPLY_TIMEOUT_S: Final = 5
#: Handles a message, the reply of its worker (None if no worker gets it), and the connections whose lines have been
#: passed on up to their `WorkerPool.progress`.
ReplyHandler: TypeAlias = Callable[[tap_messages.Message, Reply | None, Iterable[int]], None]


class WorkerPool:
    """Passes messages to workers. `on_reply` is called for each message with its reply, in the order of `put`.

    Args:
        count: The number of workers.
        run: What a worker does with its socket.
        on_reply: Called with messages and their replies.
        warn: Called with a sentence for the user when a worker was restarted or is killed.
        relay_ended: Returns whether the relay has ended.
        activity: Where to record the oldest message without a reply.

    Raises:
        WorkerLost: A worker cannot be started. All methods that wait can raise this.

    Attributes:
        restarts: How many workers have ended early.
    """

    def __init__(
        self,
        count: int,
        run: Callable[[socket.socket], None],
        on_reply: ReplyHandler,
        warn: Callable[[str], None],
        relay_ended: Callable[[], bool],
        activity: InspectorActivity,
    ) -> None:
        self.restarts = 0
        self._run = run
        self._warn = warn
        self._relay_ended = relay_ended
        self._activity = activity
        self._policy = RestartPolicy()
        self._selector = selectors.DefaultSelector()
        self._on_reply = on_reply
        self._at = 0  # the time of the last message (ns since the epoch)
        self._frames = False
        self._is_behind = False
        self._progress: dict[int, tuple[Progress, Progress]] = {}  # of open connections
        self._workers = [WorkerProcess(run, self._selector) for _ in range(count)]
        self._assignment = WorkerAssignment()
        self._pending_bytes = 0  # bytes of pending messages
        self._max_pending_messages, self._max_pending_bytes = _MAX_UNANSWERED * count, _MAX_BYTES * count
        #: Messages that workers have got, kept without their payload, whose size is the last item.
        self._pending: deque[tuple[WorkerProcess | None, tap_messages.Message, int]] = deque()

    def fileno(self) -> int:
        """Return a file descriptor that becomes readable when a worker has replied; then call `exchange`."""
        return self._selector.fileno()

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.pid for worker in self._workers]

    @property
    def open_numbers(self) -> list[int]:
        """The open connections, in the order in which they were opened."""
        return self._assignment.open_numbers

    def put(self, message: tap_messages.Message) -> None:
        """Pass a message to its worker. Wait if there are too many messages without a reply."""
        self._at = message.at
        if type(message) is tap_messages.TapData:  # most are
            number, direction, at, payload = message
            size = len(payload)
            worker = self._assignment.add_bytes(number, direction, size)
            self._pending_bytes += size
            self._pending.append((worker, tap_messages.TapData(number, direction, at, b""), size))
            worker.put(tap_protocol.encode_data_head(number, direction, at, size), payload)
        else:
            process = self._worker_for(message)
            if process is None:
                if isinstance(message, tap_messages.Behind):
                    self._is_behind = message.is_behind
                    self.query(BEHIND, message.at, value=message.is_behind)
                self._pending.append((None, message, 0))
                return
            worker = process
            self._pass(message, worker)
        while (
            worker.unanswered > _MAX_UNANSWERED
            or len(self._pending) > self._max_pending_messages
            or self._pending_bytes > self._max_pending_bytes
        ):
            self._wait()

    def query(self, question: str, at: int, *, value: bool = False) -> None:
        """Pass a query to each worker."""
        for worker in self._workers:
            self._pass(tap_messages.Query(at, question, value), worker)

    def _pass(self, message: tap_messages.Message, worker: WorkerProcess) -> None:
        encoded, size = tap_protocol.encode(message), 0
        if isinstance(message, tap_messages.TapReplaced):
            size, message = len(message.frame), message._replace(frame=b"")
            self._pending_bytes += size
        self._pending.append((worker, message, size))
        worker.put(encoded)

    def flush(self) -> None:
        """Send the queued messages, and pass on the replies that have arrived."""
        for worker in self._workers:
            worker.send()
        self._release()

    def exchange(self, timeout: float = 0) -> bool:
        """Send messages, and receive and pass on replies. Return whether a worker was ready within `timeout` seconds.

        Raises:
            WorkerLost: Workers have ended too often.
        """
        for worker in self._workers:
            worker.send()
        ready = self._selector.select(timeout)
        for key, events in ready:
            try:
                key.data.exchange(events)
            except WorkerLost:
                self._replace(key.data)
        self._release()
        return bool(ready)

    def drain(self) -> None:
        """Wait for all replies."""
        self._release()
        while self._pending:
            self._wait()

    def _wait(self) -> None:
        """Wait until a worker is ready. After the end of the relay, kill a worker that does not reply."""
        if self.exchange(_REPLY_TIMEOUT_S) or not self._relay_ended():
            return
        worker = self._pending[0][0] if self._pending else None
        if worker is not None:
            self._warn(f"one of {len(self._workers)} inspectors has not replied for {_REPLY_TIMEOUT_S} s and is killed")
            os.kill(worker.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill all workers, which have replied to everything."""
        for worker in self._workers:
            os.kill(worker.pid, signal.SIGKILL)  # works even if it is stopped
            worker.close()
        self._selector.close()

    def _replace(self, lost: WorkerProcess) -> None:
        """Start another worker for the connections of a lost one. Bytes that it had not inspected become gaps."""
        status = os.waitstatus_to_exitcode(lost.close())
        cause = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        self.restarts += 1
        if self._policy.record_failure(time.monotonic()) is None:
            raise WorkerLost(f"one of {len(self._workers)} inspectors has ended too often ({cause})")
        worker = WorkerProcess(self._run, self._selector)
        self._workers[self._workers.index(lost)] = worker
        dropped = self._take_unanswered(lost)
        progress = dict(self._progress)
        for _, newer_progress in lost.replies:
            progress |= newer_progress
        if self._frames:
            self._pass(tap_messages.Query(self._at, FRAMES, value=True), worker)
        if self._is_behind:
            self._pass(tap_messages.Query(self._at, BEHIND, value=True), worker)
        announcements = self._assignment.replace(lost, worker, dropped, progress, self._at)
        for message in announcements.messages:
            self._pass(message, worker)
        lost_messages = sum(not isinstance(message, tap_messages.Query) for message in dropped)
        self._activity.finish_message(lost_messages - len(announcements.messages))
        for message in dropped:
            if isinstance(message, tap_messages.Query):
                self._pass(message, worker)
        message_text = f"one of {len(self._workers)} inspectors stopped ({cause}) and was restarted"
        self._warn(f"{message_text}: {announcements.missed} bytes were not inspected")

    def _take_unanswered(self, lost: WorkerProcess) -> list[tap_messages.Message]:
        """Remove and return the messages that `lost` has not replied to."""
        unread_replies = len(lost.replies)
        remaining: deque[tuple[WorkerProcess | None, tap_messages.Message, int]] = deque()
        dropped: list[tap_messages.Message] = []
        for pending in self._pending:
            worker, message, size = pending
            if worker is lost and not unread_replies:
                dropped.append(message)
                self._pending_bytes -= size
            else:
                unread_replies -= worker is lost
                remaining.append(pending)
        self._pending = remaining
        return dropped

    # The methods of `Inspector` that viewers and the sink call.

    @property
    def frames(self) -> bool:
        """Whether lines have their `frame` at every detail."""
        return self._frames

    @frames.setter
    def frames(self, enabled: bool) -> None:
        if enabled != self._frames:
            self._frames = enabled
            self.query(FRAMES, self._at, value=enabled)

    def progress(self, number: int) -> tuple[Progress, Progress] | None:
        """Return how far each direction of a connection was inspected, as far as `on_reply` has got the lines."""
        return self._progress.get(number)

    def late_responses(self, *, at: int, repeat_reported: bool = False) -> Iterator[WaitingResponse]:
        """Yield late responses, like `Inspector.late_responses`."""
        return iter(
            [exchange for exchanges in self._query_all(WAITING, at, value=repeat_reported) for exchange in exchanges]
        )

    def open_connections(self) -> Iterator[OpenConnection]:
        """Yield the open connections, like `Inspector.open_connections`."""
        connections = {
            int(connection.opened.connection_id.rpartition("-")[2]): connection._replace(waiting=iter(waiting))
            for worker_connections in self._query_all(OPEN, self._at)
            for connection, waiting in worker_connections
        }
        return (connections[number] for number in sorted(connections))

    def _query_all(self, question: str, at: int, *, value: bool = False) -> list[Any]:
        values: list[Any] = []
        on_reply = self._on_reply

        def collect_value(message: tap_messages.Message, reply: Reply | None, progressed: Iterable[int]) -> None:
            if reply is not None and type(message) is tap_messages.Query and message.what == question:
                values.append(reply.value)
            else:
                on_reply(message, reply, progressed)

        self._on_reply = collect_value
        try:
            self.query(question, at, value=value)
            self.drain()
        finally:
            self._on_reply = on_reply
        return values

    def _worker_for(self, message: tap_messages.Message) -> WorkerProcess | None:
        assignment = self._assignment
        if isinstance(message, tap_messages.Open):
            return assignment.open(message, self._workers)
        if isinstance(message, tap_messages.Close):
            return assignment.close(message.connection_id)
        if isinstance(message, tap_messages.TapSkipped):
            return assignment.add_bytes(message.connection_id, message.direction, message.size + 4)
        if isinstance(message, tap_messages.TapGap):
            return assignment.add_bytes(message.connection_id, message.direction, message.size)
        number = getattr(message, "connection_id", None)
        return None if number is None else assignment.worker_of(number)

    def _release(self) -> None:
        no_progress: dict[int, tuple[Progress, Progress]] = {}
        while self._pending:
            worker, message, size = self._pending[0]
            reply, progress = None, no_progress
            if worker is not None:
                if not worker.replies:
                    self._activity.record_connection(getattr(message, "connection_id", 0))
                    return
                reply, progress = worker.replies.popleft()
                if progress:
                    self._progress |= progress
            self._pending.popleft()
            self._pending_bytes -= size
            self._on_reply(message, reply, progress)
            if worker is not None and type(message) is not tap_messages.Query:  # `on_reply` counts the others
                self._activity.finish_message()
            if type(message) is tap_messages.Close:
                self._progress.pop(message.connection_id, None)
                self._assignment.forget(message.connection_id)
