"""Exceptions of decoding and encoding."""

from __future__ import annotations

from dissectors.wire.paths import render


class DecodeError(ValueError):
    """Bytes do not fit the layout.

    `offset` is the first byte that could not be read, counted from the frame's length prefix;
    `path` is the field being read, outermost first, e.g. ``("topics", "2", "name")``. `kind` is ``length`` for a length
    that is negative or larger than the frame, ``varint`` for a varint that is too long, and otherwise empty.
    """

    def __init__(self, message: str, *, offset: int, path: tuple[str, ...] = (), kind: str = "") -> None:
        super().__init__(message)
        self.offset = offset
        self.path = path
        self.kind = kind

    @property
    def message(self) -> str:
        """The error without path and offset."""
        return str(self.args[0])

    def __str__(self) -> str:
        path_text = render(self.path) or "frame"
        return f"{path_text} at byte {self.offset} (0x{self.offset:04x}): {self.args[0]}"


class TooManyElements(DecodeError):
    """The message has more array elements than kproxy decodes. The bytes themselves may be valid."""


class EncodeError(ValueError):
    """A value does not fit the layout; `path` is the field, outermost first."""

    def __init__(self, message: str, *, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.path = path

    def __str__(self) -> str:
        return f"{render(self.path) or 'message'}: {self.args[0]}"
