"""Collect outputs of kproxy without its own code: the control socket, HTTP, and commands that read a trace."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path

from tests.peers.processes import until

#: Options of ``kproxy dissect`` for reading a trace.
_DISSECT_OPTIONS = (
    ("--json", "--detail", "raw"),
    ("-v",),
    ("--html",),
    ("--findings",),
    ("--findings", "--format", "json"),
    ("--findings", "--format", "sarif"),
    ("--findings", "--format", "junit"),
)


class Viewer:
    """Watches a proxy with frames and backlog, repeatedly requests its connections, and keeps every received byte."""

    def __init__(self, path: Path) -> None:
        self.received = bytearray()
        until("the control socket is there", path.exists)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._done = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._requester = threading.Thread(target=self._send_requests)
        self._reader.start()
        self._requester.start()

    def close(self) -> None:
        """Stop requesting, and read until the proxy stops."""
        self._done.set()
        self._requester.join()
        self._reader.join()
        self._socket.close()

    def _send_requests(self) -> None:
        request: dict[str, object] = {"id": 0, "do": "watch", "frames": True, "backlog": True}
        while not self._done.is_set():
            try:
                self._socket.sendall(json.dumps(request).encode() + b"\n")
            except OSError:
                return
            request = {"id": 1, "do": "connections"}
            self._done.wait(0.1)

    def _read(self) -> None:
        with suppress(ConnectionResetError):  # the proxy ends during a request
            while data := self._socket.recv(1 << 16):
                self.received += data


def fetch_http_outputs(port: int) -> dict[str, bytes]:
    """Return the bodies of HTTP responses, by path."""
    bodies = {}
    for path in ("/metrics", "/healthz", "/livez"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
            bodies[path] = response.read()
    return bodies


def run_commands(trace: Path, frames: list[bytes]) -> dict[str, bytes]:
    """Return the output of `kproxy dissect` for a trace and `kproxy explain` for frames, by command, with stderr."""
    lines = b"".join(
        json.dumps({"id": number, "frame": frame.hex()}).encode() + b"\n" for number, frame in enumerate(frames)
    )
    outputs = {" ".join(options): _run_kproxy(["dissect", *options, str(trace)]) for options in _DISSECT_OPTIONS}
    outputs["explain --json"] = _run_kproxy(["explain", "--json", "-"], lines)
    outputs |= {f"explain {number}": _run_kproxy(["explain", frame.hex()]) for number, frame in enumerate(frames[:3])}
    return outputs


def _run_kproxy(arguments: list[str], stdin: bytes = b"") -> bytes:
    command = [sys.executable, "-m", "kproxy", *arguments]
    process = subprocess.run(command, input=stdin, capture_output=True, timeout=120)
    assert process.returncode in (0, 1), process.stderr
    return process.stdout + process.stderr
