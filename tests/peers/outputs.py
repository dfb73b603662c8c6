"""Outputs of kproxy, collected by plain means: the control socket, HTTP, and the commands that read a trace."""

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

#: Commands that read a trace, after ``kproxy dissect``.
_READERS = (
    ("--json", "--detail", "raw"),
    ("-v",),
    ("--html",),
    ("--findings",),
    ("--findings", "--format", "json"),
    ("--findings", "--format", "sarif"),
    ("--findings", "--format", "junit"),
)


class Viewer:
    """Watches a proxy with frames and backlog, and asks for its connections again and again; keeps every byte."""

    def __init__(self, path: Path) -> None:
        self.received = bytearray()
        until("the control socket is there", path.exists)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._done = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._asker = threading.Thread(target=self._ask)
        self._reader.start()
        self._asker.start()

    def close(self) -> None:
        """Read to the end, which comes when the proxy stops."""
        self._done.set()
        self._asker.join()
        self._reader.join()
        self._socket.close()

    def _ask(self) -> None:
        request: dict[str, object] = {"id": 0, "do": "watch", "frames": True, "backlog": True}
        while not self._done.is_set():
            try:
                self._socket.sendall(json.dumps(request).encode() + b"\n")
            except OSError:
                return
            request = {"id": 1, "do": "connections"}
            self._done.wait(0.1)

    def _read(self) -> None:
        with suppress(ConnectionResetError):  # the proxy ends while a request is under way
            while data := self._socket.recv(1 << 16):
                self.received += data


def http(port: int) -> dict[str, bytes]:
    """By path."""
    found = {}
    for path in ("/metrics", "/healthz", "/livez"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            found[path] = answer.read()
    return found


def read_by_commands(trace: Path, frames: list[bytes]) -> dict[str, bytes]:
    """What `kproxy dissect` prints of a trace and `kproxy explain` of frames, standard error included, by command."""
    lines = b"".join(
        json.dumps({"id": number, "frame": frame.hex()}).encode() + b"\n" for number, frame in enumerate(frames)
    )
    found = {" ".join(options): _kproxy(["dissect", *options, str(trace)]) for options in _READERS}
    found["explain --json"] = _kproxy(["explain", "--json", "-"], lines)
    found |= {f"explain {number}": _kproxy(["explain", frame.hex()]) for number, frame in enumerate(frames[:3])}
    return found


def _kproxy(arguments: list[str], given: bytes = b"") -> bytes:
    command = [sys.executable, "-m", "kproxy", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout + done.stderr
