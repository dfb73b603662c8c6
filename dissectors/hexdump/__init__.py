"""Reads bytes from pasted text (hex, escapes, arrays, dumps of many tools), and writes hex dumps."""

from __future__ import annotations

from dissectors.hexdump.digits import read_digits
from dissectors.hexdump.dumps import first_row, hexdump, read_dump
from dissectors.hexdump.errors import HexError
from dissectors.hexdump.escapes import is_escaped, read_escapes

__all__ = ["HexError", "hexdump", "unhex"]


def unhex(text: str) -> bytes:
    r"""Read bytes from text in any common form.

    The form is recognised by its shape: hex digits with spaces, line breaks, colons, commas or hyphens between bytes;
    ``0x00`` and ``0x0012`` words, C and Go arrays; ``\x00`` and octal escapes with text between, bare or in quotes (C,
    Python, Go, ``printf '..' | nc``); dumps with an offset column (xxd, hexdump -C, od -t x1, tcpdump -x and -X,
    Wireshark, tshark, scapy), including ``*`` lines. Comments (``#``, ``//``, ``/* */``) are skipped, and so are lines
    before a dump that starts at offset 0. The text column of a dump is never read as bytes, and offsets must be
    consecutive. Empty text is no bytes.

    Raises:
        HexError: The text has none of these forms, or it is damaged.
    """
    text = text.replace("\r\n", "\n").replace("\xa0", " ")
    lines = text.split("\n")
    if (first := first_row(lines)) is not None:
        return read_dump(lines, first)
    return read_escapes(text) if is_escaped(text) else read_digits(text)
