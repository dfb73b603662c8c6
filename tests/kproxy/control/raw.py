"""A viewer without the client library, to test the protocol itself."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, Self


class RawViewer:
    """A connection to a control socket; every read times out after ten seconds."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(path))
        self._stream = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self.socket.close()

    def send(self, **request: Any) -> None:
        self.socket.sendall(json.dumps(request).encode() + b"\n")

    def read_line(self) -> dict[str, Any]:
        """Read the next line; return an empty dictionary at the end."""
        try:
            raw = self._stream.readline()
        except ConnectionResetError:  # the proxy disconnected before the last bytes were read
            return {}
        return json.loads(raw) if raw else {}

    def request(self, **request: Any) -> dict[str, Any]:
        """Send a request, skip the trace lines before its reply, and return the reply."""
        self.send(**request)
        while "kind" in (line := self.read_line()):
            pass
        return line

    def read_rest(self) -> list[dict[str, Any]]:
        """Read all remaining lines."""
        return list(iter(self.read_line, {}))
