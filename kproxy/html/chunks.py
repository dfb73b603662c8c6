"""JSON for a page: in compressed chunks that the browser unpacks one at a time, or uncompressed inside the markup."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from kproxy.trace.encoding import encode_json


class Chunks:
    """Values in the order added, `each` per chunk.

    Attributes:
        texts: The full chunks and, after `close`, the last one: each is a JSON array in zlib format, encoded as base64.
        size: Number of characters in all chunks.
    """

    def __init__(self, each: int) -> None:
        self.each = each
        self.texts: list[str] = []
        self.size = 0
        self._pending: list[Any] = []

    def add(self, value: Any) -> int:
        """Add a value; return its index among all values."""
        index = len(self.texts) * self.each + len(self._pending)
        self._pending.append(value)
        if len(self._pending) == self.each:
            self.close()
        return index

    def close(self) -> None:
        """Pack the remaining values."""
        if self._pending:
            compressed = zlib.compress(encode_json(self._pending), 9)
            self.texts.append(base64.b64encode(compressed).decode("ascii"))
            self.size += len(self.texts[-1])
            self._pending.clear()


def inline_json(value: Any) -> str:
    """Return JSON that is safe in a script element: nothing in it ends the element or starts a comment."""
    return encode_json(value).decode().replace("<", "\\u003c")
