"""Read bytes from pasted text (hex, base64, escapes, arrays, dumps of many tools), and write hex dumps."""

from __future__ import annotations

from dissectors.hexdump.arrays import read_arrays
from dissectors.hexdump.digits import read_digits
from dissectors.hexdump.dumps import first_row, hexdump, read_dumps
from dissectors.hexdump.errors import HexError
from dissectors.hexdump.escapes import is_escaped, read_escapes
from dissectors.hexdump.quotes import quoted_text, read_base64

__all__ = ["HexError", "hexdump", "unhex", "unhex_all"]


def unhex_all(text: str) -> list[bytes]:
    r"""Read bytes from text in any common form: one piece, or one for each dump or array in the text.

    The form is recognised by its shape: hex digits with spaces, line breaks, colons, commas or hyphens between bytes;
    ``0x00`` and ``0x0012`` words; arrays of hex or decimal numbers (C, Go, Java, JavaScript, JSON, Kotlin, Python,
    Rust); ``\x00`` and octal escapes with text in between, bare or in quotes (C, Python, Go, ``printf '..' | nc``);
    base64; hex or base64 in quotes; dumps with an offset column (xxd, hexdump -C, od -t x1, tcpdump -x and -X,
    Wireshark, tshark, scapy), including ``*`` lines. Comments (``#``, ``//``, ``/* */``) are skipped, and so are lines
    before a dump that starts at offset 0. The text column of a dump is never read as bytes, and offsets must be
    consecutive. Another dump begins where they restart at 0. The two directions of a stream that Wireshark follows are
    two pieces. Empty text yields no bytes.

    Raises:
        HexError: The text has none of these forms, or it is damaged.
    """
    text = text.replace("\r\n", "\n").replace("\xa0", " ")
    lines = text.split("\n")
    if (first := first_row(lines)) is not None:
        return read_dumps(lines, first)
    if is_escaped(text):
        return [read_escapes(text)]
    if arrays := read_arrays(text):
        return arrays
    text = text if (quoted := quoted_text(text)) is None else quoted
    return [read_digits(text) if (decoded := read_base64(text)) is None else decoded]


def unhex(text: str) -> bytes:
    """Read one piece of bytes, as `unhex_all` does.

    Raises:
        HexError: As for `unhex_all`, or if the text has several pieces.
    """
    pieces = unhex_all(text)
    if len(pieces) > 1:
        raise HexError(f"this is {len(pieces)} dumps or arrays: pass one here", line=1, column=1)
    return pieces[0]
