"""Play the bytes of a capture through a running kproxy; this process acts as both the clients and the broker."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from recorded import Sent

HOST: Final = "127.0.0.1"
#: Less than the buffers of sockets, so that a chunk can be sent before the peer reads.
_MAX_CHUNK: Final = 32_768


def played(checkout: Path, traffic: Iterable[Sent], trace: Path | None, options: Sequence[str] = ()) -> float:
    """Play the traffic through kproxy; return the CPU time of all its processes, from start to end.

    If `trace` is None, no file is written; otherwise, that directory has all lines when this returns.
    """
    with socket.create_server((HOST, 0)) as broker:
        upstream = f"{HOST}:{broker.getsockname()[1]}"
        arguments = ["--listen", f"{HOST}:0", "--upstream", upstream, "--no-control", "--quiet", *options]
        arguments += ["--trace", str(trace)] if trace else ["--no-trace"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kproxy", *arguments],
            env=environment | {"PYTHONPATH": str(checkout)},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr is not None
        if not (match := re.match(r"listening on .*:(\d+) ->", first_line := process.stderr.readline())):
            process.kill()
            raise SystemExit(f"kproxy of {checkout} does not start: {first_line}")
        broker.accept()[0].close()  # before it listens, kproxy checks that the upstream can be reached
        try:
            play(traffic, (HOST, int(match[1])), broker)
        finally:
            process.send_signal(signal.SIGTERM)
            printed = process.stderr.read()
            _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"kproxy of {checkout} ended with status {process.returncode}: {printed}")
    return usage.ru_utime + usage.ru_stime


def play(traffic: Iterable[Sent], proxy: tuple[str, int], broker: socket.socket) -> None:
    """Send each chunk once the previous chunk has arrived; close all connections at the end."""
    with contextlib.ExitStack() as stack:
        for client, upstream in _play_and_keep_open(traffic, proxy, broker, stack):
            client.close()
            upstream.recv(1)  # receives nothing: it ensures that the same side closes first each time


def _play_and_keep_open(
    traffic: Iterable[Sent], proxy: tuple[str, int], broker: socket.socket, stack: contextlib.ExitStack
) -> Iterable[tuple[socket.socket, socket.socket]]:
    ends: dict[int, tuple[socket.socket, socket.socket]] = {}
    buffer = bytearray(_MAX_CHUNK)
    for connection, is_request, data, _ in traffic:
        if connection not in ends:
            client = stack.enter_context(socket.create_connection(proxy))
            ends[connection] = client, stack.enter_context(broker.accept()[0])
            for end in ends[connection]:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender, receiver = ends[connection] if is_request else ends[connection][::-1]
        for start in range(0, len(data), _MAX_CHUNK):
            chunk = data[start : start + _MAX_CHUNK]
            sender.sendall(chunk)
            size = receiver.recv_into(buffer, len(chunk), socket.MSG_WAITALL)
            if buffer[:size] != chunk:
                raise SystemExit(f"kproxy changed what it relayed on connection {connection}")
    return ends.values()
