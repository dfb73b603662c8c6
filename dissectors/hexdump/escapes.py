"""Read escapes: backslash x, octal and newline, with printable text between them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dissectors.hexdump.errors import error_at

_ESCAPED = re.compile(r"^(?![ \t0-9a-fA-FxX,:{}-]*(?:#|//|/\*)).*?(?:\\[^\s]|\b[bB]['\"])", re.M)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.)?)", re.DOTALL)
_NAMED = {"n": 10, "r": 13, "t": 9, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27, "\\": 92, "'": 39, '"': 34}
_LITERAL = re.compile(r"(['\"])((?:(?!\1)[^\\\n]|\\.)*)\1", re.DOTALL)
_BETWEEN_LITERALS = re.compile(r"(?:\s|\\\n|\+|(?:#|//)[^\n]*|/\*.*?\*/)*[bB$]?(?=['\"])", re.DOTALL)
_BARE_SKIPPED = re.compile(r"(?:(?<!\S)(?:#|//)[^\n]*|\\?\s)+")


def is_escaped(text: str) -> bool:
    """Whether the text has an escape or a Python bytes literal outside the comments of plain hex."""
    return _ESCAPED.search(text) is not None


def read_escapes(text: str) -> bytes:
    """Read the bytes of the quoted strings in the text, or of the text itself if no quote precedes the first escape."""
    quote = re.search(r"['\"]", text)
    escape = text.find("\\")
    if quote is None or -1 < escape < quote.start():
        return b"".join(_unescape(text, start, end) for start, end in _bare_words(text))
    first = position = quote.start()
    data = b""
    while literal := _LITERAL.match(text, position):
        data += _unescape(text, literal.start(2), literal.end(2))
        position = literal.end()
        if (separator := _BETWEEN_LITERALS.match(text, position)) is None:
            break
        position = separator.end()
    else:
        raise error_at(
            text, position, "this string is not closed on its line: add the quote, or write a line break as \\n"
        )
    if (next_string := re.compile(r"\\[x0-7]").search(text, position)) is not None:
        raise error_at(text, next_string.start(), "another string follows: pass one frame at a time")
    if re.search(r"printf\s+\$?$", text[:first]) and (percent := text.find("%", first, position)) >= 0:
        raise error_at(text, percent, "printf interprets '%': write it as \\x25")
    return data


def _bare_words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans between blanks and comments: without quotes, blanks are not data."""
    position = 0
    for gap in _BARE_SKIPPED.finditer(text):
        yield position, gap.start()
        position = gap.end()
    yield position, len(text)


def _unescape(text: str, start: int, end: int) -> bytes:
    data = bytearray()
    position = start
    for escape in _ESCAPE.finditer(text, start, end):
        data += text[position : escape.start()].encode("utf-8", "surrogatepass")
        position = escape.end()
        hexadecimal, octal, name = escape.groups()
        if hexadecimal or (octal and int(octal, 8) < 256):
            data.append(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
        elif name in _NAMED:
            data.append(_NAMED[name])
        elif name != "\n":
            message = f"'{escape[0]}' is not a byte escape: write it as \\x and two hex digits"
            raise error_at(text, escape.start(), message)
    return bytes(data + text[position:end].encode("utf-8", "surrogatepass"))
