"""A viewer of plain bytes, so that the protocol is tested and not the client."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, Self


class RawViewer:
    """Connected to a control socket; every read gives up after ten seconds."""

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

    def line(self) -> dict[str, Any]:
        """The next line; empty at the end."""
        try:
            read = self._stream.readline()
        except ConnectionResetError:  # it was cut off before it was heard to the end
            return {}
        return json.loads(read) if read else {}

    def ask(self, **request: Any) -> dict[str, Any]:
        """The reply; lines of the trace that come before it are passed over."""
        self.send(**request)
        while "kind" in (line := self.line()):
            pass
        return line

    def rest(self) -> list[dict[str, Any]]:
        """What comes up to the end."""
        return list(iter(self.line, {}))
