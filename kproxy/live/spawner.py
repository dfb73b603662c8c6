"""The spawner: a process that only forks inspectors, because the relay cannot.

The relay has threads and an event loop: a child forked from it would have copies of locks that no thread of the child
releases. The spawner is forked before these exist. It keeps the control socket, so that viewers find the next inspector
at the same path.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from kproxy.live.inspector_process import ignore_stop_signals, inspect
from kproxy.live.sink import InspectorOptions
from kproxy.proxy.inspected import InspectedTable

_STATUS: Final = struct.Struct(">i")
_SPAWN: Final = b"s"
#: The status of an inspector that could not be forked.
NOT_STARTED: Final = 255


class Spawner:
    """The spawner, as the relay sees it. `channel` is readable when an inspector has ended, or the spawner has.

    Attributes:
        channel: Not blocking.
        table: How far connections were inspected.
    """

    def __init__(self, pid: int, channel: socket.socket, table: InspectedTable) -> None:
        channel.setblocking(False)
        self.channel = channel
        self.table = table
        self._pid: int | None = pid

    def spawn(self) -> socket.socket:
        """Start an inspector after the previous one has ended; return the tap's end of its socket. Never waits.

        Raises:
            OSError: No file descriptor is left, or the spawner has ended.
        """
        tap, seen = socket.socketpair()
        with seen:
            try:
                socket.send_fds(self.channel, [_SPAWN], [seen.fileno()])
            except OSError:
                tap.close()
                raise
        return tap

    def statuses(self) -> list[int] | None:
        """The exit statuses of inspectors that have ended, as `os.waitstatus_to_exitcode`; None if the spawner has."""
        try:
            data = self.channel.recv(16 * _STATUS.size)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return [status for (status,) in _STATUS.iter_unpack(data)] or None

    def dismiss(self) -> None:
        """Start no more inspectors: after the last one, the spawner removes the control socket and ends."""
        with suppress(OSError):
            self.channel.shutdown(socket.SHUT_WR)

    def close(self) -> list[int]:
        """Wait until the last inspector and the spawner have ended; return the remaining `statuses`."""
        statuses: list[int] = []
        if self._pid is None or self.channel.fileno() < 0:  # an earlier call has ended, or was interrupted
            return statuses
        self.dismiss()
        self.channel.setblocking(True)
        with self.channel:
            while (more := self.statuses()) is not None:
                statuses += more
        os.waitpid(self._pid, 0)
        self._pid = None
        return statuses


@contextmanager
def start_spawner(options: InspectorOptions) -> Iterator[Spawner]:
    """Fork the spawner; wait for it at the end, if `close` was not called.

    Call it before there are threads or a loop. The spawner ignores the signals that end the relay. It ends after the
    relay and the last inspector.
    """
    table = InspectedTable()
    channel, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        channel.close()
        _serve(options, theirs, table)
    theirs.close()
    if options.control is not None:
        options.control.socket.close()  # otherwise viewers would wait although no process accepts them
    spawner = Spawner(pid, channel, table)
    try:
        yield spawner
    finally:
        spawner.close()


def _serve(options: InspectorOptions, channel: socket.socket, table: InspectedTable) -> NoReturn:
    """Fork an inspector for each socket that arrives, one after the other."""
    ignore_stop_signals()
    try:
        while True:
            data, received, _, _ = socket.recv_fds(channel, len(_SPAWN), 1)
            if not data:
                break
            channel.sendall(_STATUS.pack(_run_inspector(options, channel, received[0], table)))
    except OSError:  # the relay has ended
        pass
    finally:
        if options.control is not None:
            options.control.remove()
        os._exit(0)


def _run_inspector(options: InspectorOptions, channel: socket.socket, seen: int, table: InspectedTable) -> int:
    """Fork an inspector and wait for its end; return its exit status."""
    try:
        pid = os.fork()
    except OSError:
        os.close(seen)
        return NOT_STARTED
    if pid == 0:
        channel.close()
        inspect(options, socket.socket(fileno=seen), table)
    os.close(seen)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)
