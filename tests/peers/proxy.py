"""Proxy: kproxy as its users run it; and a chain that records the bytes on either side of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.peers.forwarder import Address, Connection, Forwarder
from tests.peers.processes import dies_with_us, until
from tests.peers.trace import Line, read_lines


class Proxy:
    """A `kproxy` process in front of `upstream`; it listens when the constructor returns.

    Args:
        upstream: The broker, or a capture to answer from; None is the broker that kproxy has built in.
        directory: For the trace.
        options: Of the command line, beside the addresses and `--trace`.
        printed: File for what the process prints; one in `directory` without it.
    """

    def __init__(
        self, upstream: Address | Path | None, directory: Path, *options: str, printed: Path | None = None
    ) -> None:
        self.trace = directory / "trace"
        self._printed = printed or directory / "printed.txt"
        command = [sys.executable, "-m", "kproxy", "--listen", "127.0.0.1:0"]
        if isinstance(upstream, Path):
            command += ["--replay", str(upstream)]
        else:
            command += ["--upstream", *(["{}:{}".format(*upstream)] if upstream else [])]
        with self._printed.open("wb") as output:
            self._process = subprocess.Popen(
                dies_with_us([*command, "--trace", str(self.trace), *options]),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0,
            )  # fmt: skip
        self.address: Address = ("127.0.0.1", until("kproxy listens", self._port))

    @property
    def printed(self) -> str:
        """All it wrote so far, standard output and standard error."""
        return self._printed.read_text()

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return "{}:{}".format(*self.address)

    def interrupt(self, *, status: int = 0) -> None:
        """Ctrl-C, and wait for the end, which must have this exit status."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(90) == status, self.printed

    def kill(self) -> None:
        """SIGKILL for the relay alone; what belongs to it may end by itself."""
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        """SIGKILL for every process of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _port(self) -> int:
        assert self._process.poll() is None, self.printed
        match = re.search(r"(?:listening on |bootstrap\.servers=)127\.0\.0\.1:(\d+)\b", self.printed)
        return int(match[1]) if match else 0


@dataclass(frozen=True)
class Chain:
    """Clients reach `front`, which dials `proxy`, which dials `back`, which dials the broker."""

    front: Forwarder
    proxy: Proxy
    back: Forwarder

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return "{}:{}".format(*self.front.address)

    def finish(self) -> None:
        """Wait for the last connection to end, then end the proxy as Ctrl-C does."""
        until("all connections are closed", lambda: self.front.all_closed() and self.back.all_closed())
        self.proxy.interrupt()

    def pairs(self, *, torn_end: bool = False) -> Iterator[tuple[Connection, list[Line]]]:
        """Each connection with the lines of the trace that belong to it; `torn_end` as `read_lines` has it."""
        lines = read_lines(self.proxy.trace, torn_end=torn_end)
        opened: dict[str, deque[str]] = defaultdict(deque)  # of an address all, in order: a port may be used again
        for line in lines:
            if line["kind"] == "open":
                opened[line["client"]].append(line["connection_id"])
        for connection in self.front.connections:
            ids = opened["{}:{}".format(*connection.local)]
            mine = ids.popleft() if ids else None
            yield connection, [line for line in lines if line["connection_id"] == mine]


@contextlib.contextmanager
def chained(listener: socket.socket, broker: Address, directory: Path, *options: str) -> Iterator[Chain]:
    """A chain between a listening socket, whose port the broker advertises, and the broker."""
    back = Forwarder(broker)
    try:
        proxy = Proxy(back.address, directory, *options)
        front = Forwarder(proxy.address, listener)
        try:
            yield Chain(front, proxy, back)
        finally:
            proxy.kill_all()
            front.close()
    finally:
        back.close()
