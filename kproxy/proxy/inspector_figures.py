"""Figures that the inspector's process sends to the relay about once a second, as length-prefixed text."""

from __future__ import annotations

import socket
import struct
from typing import Final

#: A longer text means that the inspector is at fault.
MAX_BYTES: Final = 4 * 1024 * 1024
_LENGTH: Final = struct.Struct(">I")


class FiguresReader:
    """The relay's end: keeps the last complete text.

    Attributes:
        text: The last text; empty until the current inspector has sent one.
        inspectors: The number of inspectors so far.
    """

    def __init__(self) -> None:
        self.text = b""
        self.inspectors = 0
        self._buffer = bytearray()
        self._broken = False

    def begin(self) -> None:
        """Start over for a new inspector."""
        self.inspectors += 1
        self.text = b""
        self._buffer.clear()
        self._broken = False

    def receive(self, data: bytes) -> None:
        """Process the next bytes. This never raises."""
        if self._broken:
            return
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer)
            if size > MAX_BYTES:
                self._broken = True
                self._buffer.clear()
                return
            end = _LENGTH.size + size
            if len(self._buffer) < end:
                return
            self.text = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]


class FiguresWriter:
    """The inspector's end. It never blocks: while one text is being sent, no other text can be sent.

    Args:
        sock: A non-blocking socket that the caller owns.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._rest = memoryview(b"")

    def is_ready(self) -> bool:
        """Send the rest of the last text; return whether another text can be sent."""
        while self._rest:
            try:
                sent_size = self._socket.send(self._rest)
            except OSError:  # the buffer is full, or the relay has ended, which reading the tap will show
                return False
            self._rest = self._rest[sent_size:]
        return True

    def send(self, text: bytes) -> None:
        """Send as much of a text as fits. Call this only after `is_ready` has returned true."""
        self._rest = memoryview(_LENGTH.pack(len(text)) + text)
        self.is_ready()
