"""What can be wrong with bytes, and with values to be written."""

from __future__ import annotations

from dissectors.wire.paths import render


class DecodeError(ValueError):
    """Bytes do not fit the layout.

    `offset` is the first byte that could not be read, counted from the frame's length prefix;
    `path` the field being read, outermost first, e.g. ``("topics", "2", "name")``. `kind` is ``length`` for a length
    that no value of this frame can have, ``varint`` for a varint that never ends, else empty.
    """

    def __init__(self, message: str, *, offset: int, path: tuple[str, ...] = (), kind: str = "") -> None:
        super().__init__(message)
        self.offset = offset
        self.path = path
        self.kind = kind

    @property
    def message(self) -> str:
        """The sentence without the place."""
        return str(self.args[0])

    def __str__(self) -> str:
        where = render(self.path) or "frame"
        return f"{where} at byte {self.offset} (0x{self.offset:04x}): {self.args[0]}"


class Crowded(DecodeError):
    """More elements than are decoded of one message: nothing is wrong with the bytes, as far as they were read."""


class EncodeError(ValueError):
    """A value does not fit the layout; `path` is the field, outermost first."""

    def __init__(self, message: str, *, path: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.path = path

    def __str__(self) -> str:
        return f"{render(self.path) or 'message'}: {self.args[0]}"
