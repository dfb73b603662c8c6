"""Read arrays of numbers: literals of programming languages, and arrays as programs print them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dissectors.hexdump.comments import blank_comments
from dissectors.hexdump.errors import error_at

_OPEN = re.compile(r"<Buffer\s|<<|[\[{(]")
_CLOSE = re.compile(r"\]|\}|\)|>>|>")
#: The first element, and what follows it. The `[18]` of a declaration is not an array.
_FIRST_ELEMENT = re.compile(r"\s*[-+]?[0-9][0-9a-zA-Z_]*\s*[,\s}]")
_FIRST_HEX_BYTE = re.compile(r"\s*[0-9a-fA-F]{2}[\s>]")
_CAST = re.compile(r"\(\s*byte\s*\)")
_WORD = re.compile(r"[^\s,]+")
_NUMBER = re.compile(r"[-+]?(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<decimal>[0-9]+))(?:_?[iu]8|[uU])?")
_HEX_BYTE = re.compile(r"[0-9a-fA-F]{2}")


def read_arrays(text: str) -> list[bytes]:
    """Return the bytes of each array in the text; empty if it has none.

    Elements are 0x00 to 0xff or decimal, -128 to 255, with the casts and suffixes of Java and Rust. Without 0x they are
    hex if each has two digits and one begins with 0 or has a letter. Longer 0x words in a C array are read as is.

    Raises:
        HexError: An element is not a byte.
    """
    text = _CAST.sub(lambda cast: " " * len(cast[0]), blank_comments(text))
    return [_read_elements(text, start, end) for start, end in _array_spans(text)]


def _array_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the span of each array's elements, without the brackets."""
    position = 0
    while opening := _OPEN.search(text, position):
        position = opening.end()
        first_element = _FIRST_HEX_BYTE if opening[0].startswith("<Buffer") else _FIRST_ELEMENT
        if first_element.match(text, position):
            closing = _CLOSE.search(text, position)
            end = closing.start() if closing else len(text)
            yield position, end
            position = end


def _read_elements(text: str, start: int, end: int) -> bytes:
    words = list(_WORD.finditer(text, start, end))
    is_hexadecimal = all(_HEX_BYTE.fullmatch(word[0]) for word in words if word[0] != "...") and any(
        word[0][0] == "0" or not word[0].isdecimal() for word in words
    )
    data = bytearray()
    for word in words:
        index = word.start()
        if word[0] == "...":
            raise error_at(text, index, "the program that printed this left bytes out: print them all, as hex")
        if is_hexadecimal:
            data.append(int(word[0], 16))
            continue
        number = _NUMBER.fullmatch(word[0])
        if number is None:
            raise error_at(text, index, f"'{word[0]}' is not a byte: use 0x00 to 0xff, or -128 to 255")
        if (digits := number["hex"]) is not None:
            data += bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2))
        elif -128 <= (value := int(number[0][: number.end("decimal") - number.start()])) <= 255:
            data.append(value & 0xFF)
        else:
            raise error_at(text, index, f"{value} is not a byte: use -128 to 255")
    return bytes(data)
