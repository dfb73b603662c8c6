"""The inspector's process: what the tap tells in, trace files and the terminal out."""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from dissectors.events import BEHIND
from kproxy.inspector import Inspector
from kproxy.outputs.choice import output_for
from kproxy.outputs.live import Throttle
from kproxy.outputs.selection import Selection
from kproxy.outputs.tally import Tally
from kproxy.proxy import wire
from kproxy.proxy.events import InspectorLost
from kproxy.trace.clock import timestamp
from kproxy.trace.lines import FORMAT, Detail, GapLine, Line, RequestLine, ResponseLine
from kproxy.trace.writer import TraceWriter

_CHUNK = 1 << 20
_IDLE_NS = 1_000_000_000
_FAILED = 1  # exit status of an inspector that has said why


@dataclass(frozen=True, slots=True)
class Watch:
    """What to do with what is seen: the options of the root command, and where the trace goes (None: nowhere)."""

    args: argparse.Namespace
    directory: Path | None


@dataclass(slots=True)
class Watching:
    """The inspector's process, as its parent sees it; `tap` is the socket that it listens on."""

    pid: int
    tap: socket.socket
    _status: int | None = None
    _told: bool = False

    def went_well(self) -> bool:
        """Wait for its end; whether it was a good one."""
        return self._ended(0) == 0

    def tell_lost(self, reason: str) -> None:
        """Tell the user that it is gone, once, and not if it has said so itself; one that was killed cannot."""
        if not self._told and self._ended(os.WNOHANG) != _FAILED:
            warn(str(InspectorLost(reason)))
        self._told = True

    def _ended(self, options: int) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, options)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status


@contextmanager
def start_watching(watch: Watch) -> Iterator[Watching]:
    """Fork the inspector's process, and wait for it at the end.

    It is forked before there are threads or a loop. It ignores the signals that end the relay, and ends when the
    socket does: so the trace is finished also when the relay is killed.
    """
    tap, seen = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        tap.close()
        status = _FAILED
        try:
            _watch(watch, seen)
            status = 0
        except Exception as error:  # noqa: BLE001  # whatever it is: nobody is left to handle it
            _say_why(error)
        finally:
            os._exit(status)
    seen.close()
    watching = Watching(pid, tap)
    try:
        yield watching
    finally:
        tap.close()
        watching.went_well()


def _say_why(error: Exception) -> None:
    if os.environ.get("KPROXY_TRACEBACK"):
        traceback.print_exception(error)
    warn(f"the inspector failed ({type(error).__name__}: {error}): traffic flows on, nothing more is shown or traced;"
         " this is a bug in kproxy, KPROXY_TRACEBACK=1 shows where")  # fmt: skip


def _watch(watch: Watch, seen: socket.socket) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    seen.settimeout(_IDLE_NS / 1e9)
    watcher: _Watcher | None = None
    decoder = wire.TapDecoder()
    try:
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
    except Exception:
        if watcher is not None:
            watcher.give_up()
        raise


class _Watcher:
    def __init__(self, watch: Watch, hello: wire.Hello) -> None:
        args = watch.args
        self._selection = Selection.of_options(args)
        self._output = output_for(args, sys.stdout, self._selection)
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
                message.connection_id, message.direction, message.head, message.size, at=message.at, reason=BEHIND
            )
        if isinstance(message, wire.Gap):
            return inspector.lose(
                message.connection_id, message.direction, message.size, at=message.at, reason=BEHIND,
                frames=message.frames,
            )  # fmt: skip
        if isinstance(message, wire.Close):
            return inspector.close(message.connection_id, at=message.at, by=message.by, how=message.how)
        if isinstance(message, wire.Missed):
            self._missed += message.connections
        return []

    def _take(self, line: Line) -> None:
        selected = self._selection.of(line)  # the trace has them all
        if selected is not None:
            self._tally.add(selected)
            if self._shown and self._throttle.allows():
                self._show(lambda: self._output.write(selected))
        if self._trace is not None:
            if not self._keep_body and isinstance(line, RequestLine | ResponseLine):
                line.body = None  # it was made for the screen
                for finding in line.findings:
                    finding.excerpt = None
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
        """Nothing was heard for a while: whatever has happened up to then is known, and what has not."""
        self._at = max(self._at, time.time_ns())
        for line in self._inspector.tick(at=self._at - _IDLE_NS):
            self._take(line)
        self.flush()
        if self._trace is not None:
            self._trace.tick(at=self._at)

    def give_up(self) -> None:
        """The inspector has failed: what it has seen until now is kept, and that there was more."""
        if self._trace is not None:
            gap = GapLine(v=FORMAT, ts=timestamp(self._at), connection_id="", direction="both", bytes=0,
                          reason="the inspector failed: nothing that came later is here")  # fmt: skip
            self._trace.add(gap, at=self._at)
            self._trace.close(at=self._at)

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
