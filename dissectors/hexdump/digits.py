"""Read hex digits, plain or with 0x."""

from __future__ import annotations

import re

from dissectors.hexdump.comments import blank_comments
from dissectors.hexdump.errors import HexError, error_at

_WORD = re.compile(r"[^\s,:-]+")


def read_digits(text: str) -> bytes:
    """Return the bytes of hex digits, which may have blanks, separators and comments between them."""
    text = blank_comments(text)
    digits: list[str] = []
    half_byte, end = "", 0  # the first digit of a byte that is split by a line break
    for match in _WORD.finditer(text):
        word, index = match[0], match.start()
        if half_byte and "\n" not in text[end:index]:
            raise _odd_count_error(text, end, half_byte)
        end = match.end()
        if word[:2] in ("0x", "0X"):
            word, index = word[2:], index + 2
            word = word.zfill(2) if len(word) == 1 else word  # Go and Wireshark write small bytes with one digit
        if word == "*":
            raise error_at(text, index, "'*' needs offsets to show how many lines it replaces: dump with -v")
        if (stray := re.search(r"[^0-9a-fA-F]", word)) is not None:
            raise error_at(text, index + stray.start(), f"{stray[0]!r} is not a hex digit")
        if not word:
            raise error_at(text, index, "hex digits are missing after 0x")
        word = half_byte + word
        half_byte = word[-1] if len(word) % 2 else ""
        digits.append(word[:-1] if half_byte else word)
    if half_byte:
        raise _odd_count_error(text, end, half_byte)
    return bytes.fromhex("".join(digits))


def _odd_count_error(text: str, end: int, digit: str) -> HexError:
    return error_at(text, end - 1, f"odd number of hex digits: the last one is '{digit}'")
