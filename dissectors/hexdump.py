"""Bytes as people paste them (hex, escapes, arrays, the dump of any tool), and a dump of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_MOST_REPEATED = 100 * 1024 * 1024  # Kafka's socket.request.max.bytes: a '*' line must not stand for more


class HexError(ValueError):
    """Text that is no hex. `line` and `column` count from 1; the message says what to do about it."""

    def __init__(self, message: str, *, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.args[0]}"


def unhex(text: str) -> bytes:
    r"""Read one run of bytes from text, in whatever form it was copied.

    Understood, by shape alone: hex digits with spaces, line breaks, colons, commas or hyphens anywhere between bytes;
    ``0x00`` and ``0x0012`` words, C and Go arrays; ``\x00`` and octal escapes with text between, bare or in quotes
    (C, Python, Go, ``printf '..' | nc``); dumps with an offset column (xxd, hexdump -C, od -t x1, tcpdump -x and -X,
    Wireshark, tshark, scapy), their ``*`` lines filled in. Comments (``#``, ``//``, ``/* */``) are passed over, and so
    are lines before a dump that starts at offset 0. The text column of a dump is never read as bytes, and offsets
    must follow each other. No text at all is no bytes.

    Raises:
        HexError: It is none of these, or it is damaged.
    """
    text = text.replace("\r\n", "\n").replace("\xa0", " ")
    lines = text.split("\n")
    if (first := _first_row(lines)) is not None:
        return _read_dump(lines, first)
    return _read_escapes(text) if _ESCAPED.search(text) else _read_digits(text)


def hexdump(data: bytes, start: int = 0, width: int = 16) -> Iterator[str]:
    """Lines of offset, `width` bytes and their ASCII, as hexdump -C prints them; the first offset is `start`."""
    columns = width * 3 + (width > 8)
    for at in range(0, len(data), width):
        row = data[at : at + width]
        digits = f"{row[:8].hex(' ')}  {row[8:].hex(' ')}"
        yield f"{start + at:08x}  {digits:<{columns}} |{_ascii(row)}|"


def _ascii(data: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


def _error(text: str, index: int, message: str) -> HexError:
    return HexError(message, line=text.count("\n", 0, index) + 1, column=index - text.rfind("\n", 0, index))


# --- dumps: an offset, bytes, and perhaps the same bytes as text


_OFFSET = re.compile(r"\s*(?:0x(?=[0-9a-f]+:))?([0-9a-f]{4,16})(:?)(?=\s|$)", re.I)
_GROUP = re.compile(r"(\s*)([0-9a-fA-F]+)(?=\s|$)")
_TEXT_COLUMN = re.compile(r"\s*$|\s{2}|[^ \S]| [|>]")  # what follows the last byte
_HEX_AFTER_GAP = re.compile(r"\s+((?:[0-9a-fA-F]{2})+)(?:\s|$)")
_PASSED_OVER = re.compile(r"\s*(?:$|#|//)")
# No frame begins like this, its first number being its length: od's 000000 and 0000000, Wireshark's 0000 and a gap.
_OFFSET_ZERO = re.compile(r"\s*(?:0{6,7}\s+(?:[0-9a-f]{2})+|0{4,16}\s{2,}[0-9a-f]{2})(?:\s|$)", re.I)


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a dump; `after_star` when lines equal to the one before were left out."""

    line: int
    column: int
    offset: str
    data: bytes
    after_star: bool = False


def _first_row(lines: Sequence[str]) -> int | None:
    """The index of the line where a dump begins; None when the text is no dump."""
    filled = [index for index, line in enumerate(lines) if not _PASSED_OVER.match(line)]
    if filled and (_OFFSET_ZERO.match(lines[filled[0]]) or _offsets_agree([lines[index] for index in filled])):
        return filled[0]
    for index in filled:
        offset = _OFFSET.match(lines[index])
        if offset and (offset[2] or _barred(lines[index])):
            return index
    return None


def _barred(line: str) -> bool:
    line = line.rstrip()
    return (line.endswith("|") and line.count("|") > 1) or (line.endswith("<") and ">" in line)


def _offsets_agree(lines: Sequence[str]) -> bool:
    """Whether most first words count the bytes of the lines before them, as offsets do."""
    try:
        rows = [_row(line, 1) for line in lines]
    except HexError:
        return False
    return 2 * _agreeing(rows, _radix(rows)) > len(rows) - 1


def _read_dump(lines: Sequence[str], first: int) -> bytes:
    rows: list[_Row] = []
    star = 0
    for number, line in enumerate(lines[first:], first + 1):
        if line.strip() == "*":
            star = number
        elif not _PASSED_OVER.match(line):
            rows.append(_row(line, number, after_star=bool(star)))
            star = 0
    if star:
        raise HexError("the line after '*' is missing: its offset says what '*' stands for", line=star, column=1)
    radix = _radix(rows)
    start = int(rows[0].offset, radix)
    before = [number for number, line in enumerate(lines[:first], 1) if not _PASSED_OVER.match(line)]
    if before and start:
        raise HexError(f"this is no line of a dump, yet the next has offset {rows[0].offset}", line=before[0], column=1)
    data = bytearray()
    width = 0
    for row in rows:
        missing = int(row.offset, radix) - start - len(data)
        if row.after_star and width and missing >= 0 and missing % width == 0:  # busybox prints '*' for no lines too
            if missing > _MOST_REPEATED:
                raise HexError(f"'*' stands for {missing} bytes, more than a frame has", line=row.line, column=1)
            data += data[-width:] * (missing // width)
        elif missing:
            raise _wrong_offset(row, _formatted(start + len(data), radix))
        data += row.data
        width = len(row.data)
    return bytes(data)


def _wrong_offset(row: _Row, expected: str) -> HexError:
    if int(row.offset, 16) == 0:
        message = "offsets begin again at 0: give one dump at a time"
    else:
        message = (
            f"offset {row.offset} does not follow, {expected} is next: a line or some bytes are missing or doubled"
        )
    return HexError(message, line=row.line, column=row.column)


def _formatted(offset: int, radix: int) -> str:
    return f"{offset:{ {8: 'o', 10: 'd', 16: 'x'}[radix] }}"


def _row(line: str, number: int, *, after_star: bool = False) -> _Row:
    offset = _OFFSET.match(line)
    if offset is None:
        raise HexError("this line of the dump has no offset: remove it or restore it", line=number, column=1)
    at, digits = offset.end(), ""
    while group := _GROUP.match(line, at):
        gap, word = group[1], group[2]
        # Two spaces end the bytes, except in the middle of hexdump -C's sixteen.
        if digits and gap != " " and not (gap == "  " and len(digits) == 16 and not offset[2]):
            break
        if len(word) % 2:
            raise HexError(f"'{word}' has an odd number of hex digits", line=number, column=group.start(2) + 1)
        if len(word) > 2 and not offset[2]:
            message = "these words are in the byte order of a machine: dump with hexdump -C, od -t x1 or xxd"
            raise HexError(message, line=number, column=group.start(2) + 1)
        digits += word
        at = group.end()
    if not (_TEXT_COLUMN.match(line, at) if digits else line[at:].isspace() or at == len(line)):
        stray = re.compile(r"[^\s0-9a-fA-F]").search(line, at)
        assert stray
        raise HexError(f"{stray[0]!r} is not a hex digit", line=number, column=stray.start() + 1)
    data = bytes.fromhex(digits)
    more = _HEX_AFTER_GAP.match(line, at)
    if more and not _ascii(data).replace(" ", "").startswith(more[1]):
        message = f"'{more[1]}' after the gap may be bytes or text: close the gap or remove the text"
        raise HexError(message, line=number, column=more.start(1) + 1)
    return _Row(number, offset.start(1) + 1, offset[1], data, after_star)


def _radix(rows: Sequence[_Row]) -> int:
    """16, 8 or 10, whichever makes most offsets follow; seven digits are od's, octal unless it was told otherwise."""
    order = (8, 10, 16) if len(rows[0].offset) == 7 else (16, 10, 8)
    digits = set("".join(row.offset.lower() for row in rows))
    possible = [radix for radix in order if digits <= set("0123456789abcdef"[:radix])]
    return max(possible, key=lambda radix: _agreeing(rows, radix))


def _agreeing(rows: Sequence[_Row], radix: int) -> int:
    count = 0
    for row, following in pairwise(rows):
        step, width = int(following.offset, radix) - int(row.offset, radix), len(row.data)
        count += (width and step >= width and step % width == 0) if following.after_star else 0 < width == step
    return count


# --- escapes: \x00, octal, \n, with printable text between


_ESCAPED = re.compile(r"^(?![ \t0-9a-fA-FxX,:{}-]*(?:#|//|/\*)).*?(?:\\[^\s]|\b[bB]['\"])", re.M)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.)?)", re.DOTALL)
_NAMED = {"n": 10, "r": 13, "t": 9, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27, "\\": 92, "'": 39, '"': 34}
_LITERAL = re.compile(r"(['\"])((?:(?!\1)[^\\\n]|\\.)*)\1", re.DOTALL)
_BETWEEN_LITERALS = re.compile(r"(?:\s|\\\n|\+|(?:#|//)[^\n]*|/\*.*?\*/)*[bB$]?(?=['\"])", re.DOTALL)
_BARE_SKIPPED = re.compile(r"(?:(?<!\S)(?:#|//)[^\n]*|\\?\s)+")


def _read_escapes(text: str) -> bytes:
    quote = re.search(r"['\"]", text)
    escape = text.find("\\")
    if quote is None or -1 < escape < quote.start():
        return b"".join(_unescape(text, start, end) for start, end in _bare_words(text))
    first = at = quote.start()
    data = b""
    while literal := _LITERAL.match(text, at):
        data += _unescape(text, literal.start(2), literal.end(2))
        at = literal.end()
        if (between := _BETWEEN_LITERALS.match(text, at)) is None:
            break
        at = between.end()
    else:
        raise _error(text, at, "this string is not closed on its line: add the quote, or write a line break as \\n")
    if (again := re.compile(r"\\[x0-7]").search(text, at)) is not None:
        raise _error(text, again.start(), "another string follows: give one frame at a time")
    if re.search(r"printf\s+\$?$", text[:first]) and (percent := text.find("%", first, at)) >= 0:
        raise _error(text, percent, "printf does not print '%' as it stands: write it as \\x25")
    return data


def _bare_words(text: str) -> Iterator[tuple[int, int]]:
    """Spans between blanks and comments: without quotes nothing says that a blank is meant."""
    at = 0
    for skipped in _BARE_SKIPPED.finditer(text):
        yield at, skipped.start()
        at = skipped.end()
    yield at, len(text)


def _unescape(text: str, start: int, end: int) -> bytes:
    data = bytearray()
    at = start
    for escape in _ESCAPE.finditer(text, start, end):
        data += text[at : escape.start()].encode("utf-8", "surrogatepass")
        at = escape.end()
        hexadecimal, octal, name = escape.groups()
        if hexadecimal or (octal and int(octal, 8) < 256):
            data.append(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
        elif name in _NAMED:
            data.append(_NAMED[name])
        elif name != "\n":
            message = f"'{escape[0]}' is no escape for a byte: write it as \\x and two hex digits"
            raise _error(text, escape.start(), message)
    return bytes(data + text[at:end].encode("utf-8", "surrogatepass"))


# --- digits: plain, with 0x, in an array


# The first kind is the text column of Wireshark's C arrays: up to eight characters, which may be '*/' or '//'.
_COMMENT = re.compile(r"/\* .{1,8} \*/[ \t]*$|/\*[\s\S]*?(?:\*/|\Z)|(?:#|//).*$", re.M)
_WORD = re.compile(r"[^\s,:-]+")


def _read_digits(text: str) -> bytes:
    text = _COMMENT.sub(_blank_comment, text)
    array = text.find("{") + 1
    if array:
        end = text.find("}", array)
        end = len(text) if end < 0 else end
        if (again := text.find("{", array)) >= 0:
            raise _error(text, again, "another array begins here: give one frame at a time")
        text = _blank(text[:array]) + text[array:end]
    digits: list[str] = []
    half, end = "", 0  # the first digit of a byte that a line break cut in two
    for found in _WORD.finditer(text):
        word, at = found[0], found.start()
        if half and "\n" not in text[end:at]:
            raise _odd(text, end, half)
        end = found.end()
        if word[:2] in ("0x", "0X"):
            word, at = word[2:], at + 2
            word = word.zfill(2) if len(word) == 1 else word  # as Go and Wireshark write small bytes
        elif array:
            raise _error(text, at, f"'{word}' is not hex: write it with 0x")
        if word == "*":
            raise _error(text, at, "without offsets '*' says not how many lines it stands for: dump with -v")
        if (stray := re.search(r"[^0-9a-fA-F]", word)) is not None:
            raise _error(text, at + stray.start(), f"{stray[0]!r} is not a hex digit")
        if not word:
            raise _error(text, at, "hex digits are missing after 0x")
        word = half + word
        half = word[-1] if len(word) % 2 else ""
        digits.append(word[:-1] if half else word)
    if half:
        raise _odd(text, end, half)
    return bytes.fromhex("".join(digits))


def _odd(text: str, end: int, digit: str) -> HexError:
    return _error(text, end - 1, f"odd number of hex digits: the last one is '{digit}'")


def _blank(text: str) -> str:
    """As many blanks, so that places stay where they were."""
    return re.sub(r"[^\n]", " ", text)


def _blank_comment(found: re.Match[str]) -> str:
    if found[0].startswith("/*") and not found[0].rstrip().endswith("*/"):
        raise _error(found.string, found.start(), "this comment is not closed: add */")
    return _blank(found[0])
