"""JSON for a page: compressed in chunks that a browser unpacks one at a time, or plain inside the markup."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from kproxy.trace.encoding import encode_json


class Chunks:
    """Values in the order in which they are added, `each` to a chunk.

    Attributes:
        texts: The chunks that are full, and after `close` the last one too: base64 of zlib's format of a JSON array.
        size: Characters of all of them.
    """

    def __init__(self, each: int) -> None:
        self.each = each
        self.texts: list[str] = []
        self.size = 0
        self._pending: list[Any] = []

    def add(self, value: Any) -> int:
        """Add a value; its number."""
        number = len(self.texts) * self.each + len(self._pending)
        self._pending.append(value)
        if len(self._pending) == self.each:
            self.close()
        return number

    def close(self) -> None:
        """Pack what is left."""
        if self._pending:
            packed = zlib.compress(encode_json(self._pending), 9)
            self.texts.append(base64.b64encode(packed).decode("ascii"))
            self.size += len(self.texts[-1])
            self._pending.clear()


def inline_json(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it ends that, or begins a comment."""
    return encode_json(value).decode().replace("<", "\\u003c")
