"""Reads hex digits: plain, with 0x, in an array."""

from __future__ import annotations

import re

from dissectors.hexdump.errors import HexError, error_at

# The first alternative is the text column of Wireshark's C arrays: up to eight characters, perhaps '*/' or '//'.
_COMMENT = re.compile(r"/\* .{1,8} \*/[ \t]*$|/\*[\s\S]*?(?:\*/|\Z)|(?:#|//).*$", re.M)
_WORD = re.compile(r"[^\s,:-]+")


def read_digits(text: str) -> bytes:
    """The bytes of hex digits with blanks, separators and comments; if there is an array in braces, only its bytes."""
    text = _COMMENT.sub(_blank_comment, text)
    array = text.find("{") + 1
    if array:
        end = text.find("}", array)
        end = len(text) if end < 0 else end
        if (next_start := text.find("{", array)) >= 0:
            raise error_at(text, next_start, "another array begins here: pass one frame at a time")
        text = _blank(text[:array]) + text[array:end]
    digits: list[str] = []
    half, end = "", 0  # the first digit of a byte that is split by a line break
    for found in _WORD.finditer(text):
        word, at = found[0], found.start()
        if half and "\n" not in text[end:at]:
            raise _odd_count(text, end, half)
        end = found.end()
        if word[:2] in ("0x", "0X"):
            word, at = word[2:], at + 2
            word = word.zfill(2) if len(word) == 1 else word  # Go and Wireshark write small bytes with one digit
        elif array:
            raise error_at(text, at, f"'{word}' is not hex: prefix it with 0x")
        if word == "*":
            raise error_at(text, at, "'*' needs offsets to show how many lines it replaces: dump with -v")
        if (stray := re.search(r"[^0-9a-fA-F]", word)) is not None:
            raise error_at(text, at + stray.start(), f"{stray[0]!r} is not a hex digit")
        if not word:
            raise error_at(text, at, "hex digits are missing after 0x")
        word = half + word
        half = word[-1] if len(word) % 2 else ""
        digits.append(word[:-1] if half else word)
    if half:
        raise _odd_count(text, end, half)
    return bytes.fromhex("".join(digits))


def _odd_count(text: str, end: int, digit: str) -> HexError:
    return error_at(text, end - 1, f"odd number of hex digits: the last one is '{digit}'")


def _blank(text: str) -> str:
    """Blanks of the same length, so that positions do not change."""
    return re.sub(r"[^\n]", " ", text)


def _blank_comment(found: re.Match[str]) -> str:
    if found[0].startswith("/*") and not found[0].rstrip().endswith("*/"):
        raise error_at(found.string, found.start(), "this comment is not closed: add */")
    return _blank(found[0])
