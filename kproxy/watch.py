"""The inspector's process: what the tap tells in, trace files and the terminal out."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from kproxy.inspector import Inspector
from kproxy.outputs.choice import output_for
from kproxy.outputs.live import Throttle
from kproxy.outputs.tally import Tally
from kproxy.proxy import wire
from kproxy.trace.lines import Detail, Line
from kproxy.trace.writer import TraceWriter

_CHUNK = 1 << 20
_BEHIND = "the inspector was behind"


@dataclass(frozen=True, slots=True)
class Watch:
    """What to do with what is seen: the options of the root command, and where the trace goes (None: nowhere)."""

    args: argparse.Namespace
    directory: Path | None


@contextmanager
def start_watching(watch: Watch) -> Iterator[socket.socket]:
    """Fork the inspector's process; gives the socket that the tap writes to, and waits for the process at the end.

    It is forked before there are threads or a loop. It ignores the signals that end the relay, and ends when the
    socket does: so the trace is finished also when the relay is killed.
    """
    tap, seen = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        tap.close()
        status = 1
        try:
            _watch(watch, seen)
            status = 0
        finally:
            os._exit(status)
    seen.close()
    try:
        yield tap
    finally:
        tap.close()
        os.waitpid(pid, 0)


def _watch(watch: Watch, seen: socket.socket) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    seen.settimeout(1.0)
    watcher: _Watcher | None = None
    decoder = wire.TapDecoder()
    while True:
        try:
            data = seen.recv(_CHUNK)
        except TimeoutError:
            if watcher is not None:
                watcher.idle()
            continue
        except ConnectionError:
            break
        if not data:
            break
        for message in decoder.receive_data(data):
            if isinstance(message, wire.Hello):
                watcher = _Watcher(watch, message)
            elif watcher is not None:
                watcher.hear(message)
        if watcher is not None:
            watcher.flush()
    if watcher is not None:
        watcher.close()


class _Watcher:
    def __init__(self, watch: Watch, hello: wire.Hello) -> None:
        args = watch.args
        self._output = output_for(args, sys.stdout)
        self._shown = True
        self._throttle = Throttle(sys.stdout)
        self._keep_body = Detail(args.detail) is not Detail.SUMMARY
        node = re.sub(r"[^A-Za-z0-9.-]", "-", hello.node) or "node"
        self._inspector = Inspector(f"{node}-{hello.pid}", self._output.detail(Detail(args.detail)))
        self._trace: TraceWriter | None = None
        if watch.directory is not None:
            self._trace = TraceWriter(watch.directory, node=node, compress=args.compress, warn=warn)
        self._tally = Tally()
        self._at = hello.at
        self._missed = 0

    def hear(self, message: wire.Message) -> None:
        """Take one message of the tap."""
        self._at = message.at
        for line in self._lines(message):
            self._take(line)

    def _lines(self, message: wire.Message) -> list[Line]:
        inspector = self._inspector
        if isinstance(message, wire.Data):
            return inspector.data(message.connection_id, message.direction, message.payload, at=message.at)
        if isinstance(message, wire.Open):
            return inspector.open(
                message.connection_id, message.client, message.server, at=message.at, listener=message.listener,
                tls=message.tls,
            )  # fmt: skip
        if isinstance(message, wire.Skipped):
            return inspector.skip(
                message.connection_id, message.direction, message.head, message.size, at=message.at, reason=_BEHIND
            )
        if isinstance(message, wire.Gap):
            return inspector.lose(
                message.connection_id, message.direction, message.size, at=message.at, reason=_BEHIND,
                frames=message.frames,
            )  # fmt: skip
        if isinstance(message, wire.Close):
            return inspector.close(message.connection_id, at=message.at, by=message.by, how=message.how)
        if isinstance(message, wire.Missed):
            self._missed += message.connections
        return []

    def _take(self, line: Line) -> None:
        self._tally.add(line)
        if self._shown and self._throttle.allows():
            self._show(lambda: self._output.write(line))
        if self._trace is not None:
            if not self._keep_body and getattr(line, "body", None) is not None:
                line.body = None  # type: ignore[union-attr]  # it was made for the screen
            self._trace.add(line, at=self._at)

    def _show(self, act: Callable[[], object]) -> None:
        """Use the output; its reader may leave (`| head`) while the trace goes on."""
        if not self._shown:
            return
        try:
            act()
        except BrokenPipeError:
            self._shown = False
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def flush(self) -> None:
        """What was heard so far goes out."""
        if self._trace is not None:
            self._trace.flush(at=self._at)
        self._show(self._output.close)

    def idle(self) -> None:
        """Nothing was heard for a while."""
        self._at = max(self._at, time.time_ns())
        if self._trace is not None:
            self._trace.tick(at=self._at)

    def close(self) -> None:
        """The relay is gone: end what is open, finish the trace, show the summary."""
        for line in self._inspector.close_all(at=self._at, how="proxy ended"):
            self._take(line)
        self._throttle.close()
        self._show(self._output.close)
        if self._trace is not None:
            self._trace.close(at=self._at)
        if not self._tally.connections and not self._missed:
            return  # nothing happened, e.g. because the relay could not start
        console = Console(stderr=True)
        console.print()
        self._tally.show(console)
        if self._missed:
            warn(f"{self._missed} connections came and went unseen: the inspector was behind")
        if self._trace is not None and self._trace.lost:
            warn(f"the trace lacks {self._trace.lost} lines: it could not be written")
        elif self._trace is not None:
            console.print(f"trace: {self._trace.directory}", highlight=False, soft_wrap=True)


def warn(sentence: str) -> None:
    """Tell the user on standard error."""
    print(f"kproxy: {sentence}", file=sys.stderr, flush=True)  # noqa: T201
