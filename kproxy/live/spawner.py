"""The spawner: a process that does nothing but fork inspectors, because the relay cannot.

The relay has threads and an event loop: a child forked from it could inherit locks that no thread of the child would
ever release. The spawner is forked before these exist. It keeps the control socket, so that viewers find the next
inspector at the same path.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from kproxy.io.processes import is_group_alive, kill_group, lead_group
from kproxy.live.inspector_process import ignore_stop_signals, inspect
from kproxy.live.message_inspection import run_gap
from kproxy.live.options import InspectorOptions, node_name
from kproxy.outputs.stderr import warn
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.trace.writer import TraceWriter

_STATUS: Final = struct.Struct(">i")
_SPAWN: Final = b"s"
_KILL: Final = b"k"
_POLL_S: Final = 0.02
_KILL_TIMEOUT_S: Final = 2.0  # for the spawner to kill an inspector and end
#: Reported as the exit status of an inspector that could not be forked.
NOT_STARTED: Final = 255


class Spawner:
    """The relay's handle for the spawner.

    Attributes:
        channel: A non-blocking socket, which is readable when an inspector or the spawner has ended.
        table: How far connections were inspected.
    """

    def __init__(self, pid: int, channel: socket.socket, table: InspectedTable, end_timeout: float) -> None:
        channel.setblocking(False)
        self.channel = channel
        self.table = table
        self._pid: int | None = pid
        self._end_timeout = end_timeout

    def spawn(self) -> socket.socket:
        """Request an inspector, to start once the previous one has ended; return the tap's end of its socket at once.

        Raises:
            OSError: No file descriptor is left, or the spawner has ended.
        """
        tap, inspector_end = socket.socketpair()
        with inspector_end:
            try:
                socket.send_fds(self.channel, [_SPAWN], [inspector_end.fileno()])
            except OSError:
                tap.close()
                raise
        return tap

    def drain_statuses(self) -> list[int] | None:
        """Return the exit statuses of inspectors that have ended, or None if the spawner has ended.

        They are in the form of `os.waitstatus_to_exitcode`.
        """
        try:
            data = self.channel.recv(16 * _STATUS.size)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return [status for (status,) in _STATUS.iter_unpack(data)] or None

    def kill(self) -> None:
        """Kill the inspector and its workers, even if they are stopped; its status follows. This does not block."""
        if self._pid is None:
            return
        with suppress(OSError):
            os.kill(self._pid, signal.SIGCONT)
        try:
            self.channel.send(_KILL)
        except OSError:  # the spawner has ended
            self._kill_inspector()

    def _kill_inspector(self) -> None:
        if pid := self.table.activity.pid:
            kill_group(pid)

    def dismiss(self) -> None:
        """Ask the spawner to remove the control socket and end once the current inspector has ended."""
        with suppress(OSError):
            self.channel.shutdown(socket.SHUT_WR)

    def close(self, timeout: float | None = None) -> list[int]:
        """Wait until the last inspector and the spawner have ended; return the remaining `statuses`.

        After `timeout` seconds (by default, the end timeout of an inspector), the processes still running are killed.
        """
        statuses: list[int] = []
        if self._pid is None or self.channel.fileno() < 0:  # an earlier call has completed, or was interrupted
            return statuses
        self.dismiss()
        with self.channel:
            deadline = time.monotonic() + (self._end_timeout if timeout is None else timeout)
            while (new_statuses := self._wait_for_statuses(deadline)) is not None:
                statuses += new_statuses
        _, status = os.waitpid(self._pid, 0)
        self._pid = None
        if os.WIFSIGNALED(status):
            self._wait_for_inspector(deadline)
        return statuses

    def _wait_for_statuses(self, deadline: float) -> list[int] | None:
        """Return the next statuses, or None if the spawner has ended. At the deadline, kill the inspector."""
        for timeout in (max(deadline - time.monotonic(), 0), _KILL_TIMEOUT_S):
            ready, _, _ = select.select([self.channel], [], [], timeout)
            if ready:
                return self.drain_statuses()
            self.kill()
        self._kill_inspector()
        os.kill(self._pid or 0, signal.SIGKILL)
        return None

    def _wait_for_inspector(self, deadline: float) -> None:
        """Wait for an inspector whose spawner was killed; kill it at the deadline."""
        pid = self.table.activity.pid
        while pid and is_group_alive(pid):
            if time.monotonic() >= deadline:
                kill_group(pid)
            time.sleep(_POLL_S)


@contextmanager
def start_spawner(options: InspectorOptions) -> Iterator[Spawner]:
    """Fork the spawner; wait for it at the end, unless `close` was called.

    Call this before there are threads or a loop. The spawner ignores the signals that end the relay. It ends after the
    relay and the last inspector.
    """
    table = InspectedTable()
    channel, spawner_end = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        channel.close()
        _serve_spawn_requests(options, spawner_end, table)
    spawner_end.close()
    if options.control is not None:
        options.control.socket.close()  # otherwise viewers would wait although no process accepts their connections
    spawner = Spawner(pid, channel, table, options.end_timeout)
    try:
        yield spawner
    finally:
        spawner.close()


def _serve_spawn_requests(options: InspectorOptions, channel: socket.socket, table: InspectedTable) -> NoReturn:
    """Fork an inspector for each socket that arrives, one after another."""
    ignore_stop_signals()
    lead_group()  # so that the system continues this process if it is stopped when the relay is killed
    try:
        while True:
            data, descriptors, _, _ = socket.recv_fds(channel, len(_SPAWN), 1)
            if not data:
                break
            if data == _SPAWN:
                channel.sendall(_STATUS.pack(_run_inspector(options, channel, descriptors[0], table)))
    except OSError:  # the relay has ended
        pass
    finally:
        if options.control is not None:
            options.control.remove()
        os._exit(0)


def _run_inspector(
    options: InspectorOptions, channel: socket.socket, tap_descriptor: int, table: InspectedTable
) -> int:
    """Fork an inspector and wait for it to exit; return its exit status."""
    exit_descriptor, inspector_end = os.pipe()  # readable once the inspector, which holds the other end, has exited
    table.activity.begin(0)
    try:
        pid = os.fork()
    except OSError:
        for descriptor in (tap_descriptor, exit_descriptor, inspector_end):
            os.close(descriptor)
        return NOT_STARTED
    if pid == 0:
        lead_group()
        channel.close()
        os.close(exit_descriptor)
        inspect(options, socket.socket(fileno=tap_descriptor), table)
    lead_group(pid)
    os.close(tap_descriptor)
    os.close(inspector_end)
    finished = _wait_for_exit(pid, exit_descriptor, channel, options.end_timeout)
    os.close(exit_descriptor)
    kill_group(pid)  # its workers may be busy or stopped
    _, status = os.waitpid(pid, 0)
    if not finished:
        report_unfinished(options, f"had not finished {options.end_timeout:g} s after the relay had ended")
    return os.waitstatus_to_exitcode(status)


def _wait_for_exit(pid: int, exit_descriptor: int, channel: socket.socket, end_timeout: float) -> bool:
    """Wait until an inspector has exited; kill it at the relay's request, or `end_timeout` after the relay has ended.

    Returns:
        False if it had to be killed and the relay has ended, so that the relay cannot report it.
    """
    watched: list[int] = [exit_descriptor, channel.fileno()]
    timeout: float | None = None
    while True:
        ready, _, _ = select.select(watched, [], [], timeout)
        if exit_descriptor in ready:
            return True
        if not ready:
            kill_group(pid)
            return _is_relay_running(channel)
        if channel.recv(len(_KILL)) == _KILL:
            kill_group(pid)
        else:
            watched, timeout = [exit_descriptor], end_timeout


def _is_relay_running(channel: socket.socket) -> bool:
    """Return whether the relay is running, even if it has shut down its end for writing."""
    poll = select.poll()
    poll.register(channel, 0)
    return not any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))


def report_unfinished(options: InspectorOptions, reason: str) -> None:
    """Report on stderr and in the trace that the inspector was killed; call this after it has ended."""
    reason = f"the inspector {reason}, and was killed"
    warn(f"{reason}: the trace lacks what it had not inspected")
    if options.directory is None:
        return
    with suppress(OSError):
        trace = TraceWriter(
            options.directory, node=node_name(socket.gethostname()), compress=options.compress, warn=warn
        )
        now = time.time_ns()
        trace.add(run_gap(now, reason), at=now)
        trace.close(at=now)
