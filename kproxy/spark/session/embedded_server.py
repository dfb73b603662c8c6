"""Sail as a Spark Connect server for one client, on loopback: a separate program that does not import kproxy.

It prints its port. A line on standard input means that the client has connected: the server closes its listening
socket, so that no other user of the machine can connect, and prints how many connections there are. It ends at the end
of its standard input.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from types import ModuleType


def main() -> None:
    """Serve until the end of standard input."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123  # Linux only
        file.write("500")  # if memory runs out, the kernel kills this process rather than others
    sys.modules["pyspark"] = _pyspark_stand_in()
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    address = server.listening_address
    assert address is not None
    _write_number(address[1])
    if sys.stdin.readline():
        _close_listener(address)
        _write_number(sum(peer is not None for _, peer in _sockets(address)))
        sys.stdin.read()
    os._exit(0)  # Sail would wait for queries


def _pyspark_stand_in() -> ModuleType:
    """Return a stand-in for pyspark: Sail needs only its version, unless there are UDFs.

    The version determines Sail's defaults; Sail refuses newer versions.
    """
    pyspark = ModuleType("pyspark")
    pyspark.__version__ = "4.2.0"  # type: ignore[attr-defined]
    return pyspark


def _close_listener(address: tuple[str, int]) -> None:
    """Replace the listening socket with an unbound one, on which Sail waits for connections that never come."""
    with socket.socket() as idle_socket:
        for descriptor, peer in _sockets(address):
            if peer is None:
                os.dup2(idle_socket.fileno(), descriptor)


def _sockets(address: tuple[str, int]) -> Iterator[tuple[int, object]]:
    """Yield the file descriptors of this process's sockets at an address, with their peers; None if listening."""
    for descriptor in map(int, os.listdir("/dev/fd")):  # noqa: PTH208  # numbers
        with suppress(OSError), closing(socket.socket(fileno=os.dup(descriptor))) as sock:
            if sock.family == socket.AF_INET and sock.getsockname() == tuple(address):
                is_listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                yield descriptor, None if is_listening else sock.getpeername()


def _write_number(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
