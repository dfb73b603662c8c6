"""kproxy as its users run it, and a chain that records the bytes on either side of it."""

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
    """A `kproxy` process in front of `upstream`; it is listening when the constructor returns.

    Args:
        upstream: The broker, or a capture to answer from; None for kproxy's built-in broker.
        directory: The directory for the trace.
        options: Command-line options other than the addresses and `--trace`.
        printed: A file for the output of the process; by default, one in `directory`.
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
        """The output so far: standard output and standard error."""
        return self._printed.read_text()

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return "{}:{}".format(*self.address)

    def interrupt(self, *, status: int = 0) -> None:
        """Interrupt the process as Ctrl-C does, and wait until it ends with this exit status."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(90) == status, self.printed

    def kill(self) -> None:
        """Send SIGKILL to the relay only; the other processes may end by themselves."""
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        """Send SIGKILL to all processes of the proxy."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _port(self) -> int:
        assert self._process.poll() is None, self.printed
        match = re.search(r"(?:listening on |bootstrap\.servers=)127\.0\.0\.1:(\d+)\b", self.printed)
        return int(match[1]) if match else 0


@dataclass(frozen=True)
class Chain:
    """A chain in which clients connect to `front`, `front` to `proxy`, `proxy` to `back`, and `back` to the broker."""

    front: Forwarder
    proxy: Proxy
    back: Forwarder

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return "{}:{}".format(*self.front.address)

    def finish(self) -> None:
        """Wait for the last connection to end, then interrupt the proxy."""
        until("all connections are closed", lambda: self.front.all_closed() and self.back.all_closed())
        self.proxy.interrupt()

    def pairs(self, *, torn_end: bool = False) -> Iterator[tuple[Connection, list[Line]]]:
        """Yield each connection with its lines in the trace; `torn_end` is as in `read_lines`."""
        lines = read_lines(self.proxy.trace, torn_end=torn_end)
        ids_by_address: dict[str, deque[str]] = defaultdict(
            deque
        )  # all ids of an address, in order, because a port may be reused
        for line in lines:
            if line["kind"] == "open":
                ids_by_address[line["client"]].append(line["connection_id"])
        for connection in self.front.connections:
            ids = ids_by_address["{}:{}".format(*connection.local)]
            connection_id = ids.popleft() if ids else None
            yield connection, [line for line in lines if line["connection_id"] == connection_id]


@contextlib.contextmanager
def run_chain(listener: socket.socket, broker: Address, directory: Path, *options: str) -> Iterator[Chain]:
    """Run a chain between a listening socket, whose port the broker advertises, and the broker."""
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
