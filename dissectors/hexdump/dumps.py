"""Read and write dumps: lines with an offset, bytes and possibly the same bytes as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dissectors.hexdump.errors import HexError
from dissectors.wire.limits import MAX_FRAME_BYTES

_OFFSET = re.compile(r"\s*(?:0x(?=[0-9a-f]+:))?([0-9a-f]{4,16})(:?)(?=\s|$)", re.I)
_GROUP = re.compile(r"(\s*)([0-9a-fA-F]+)(?=\s|$)")
_INDENTED = re.compile(r"(?: {4}|\t)[0-9a-fA-F]{8}  ")
_TEXT_COLUMN = re.compile(r"\s*$|\s{2}|[^ \S]| [|>]")  # what follows the last byte
_HEX_AFTER_GAP = re.compile(r"\s+((?:[0-9a-fA-F]{2})+)(?:\s|$)")
_SKIPPED_LINE = re.compile(r"\s*(?:$|#|//|={9,}$)")
_HEX = re.compile(r"[0-9a-fA-FxX\s:,-]*")
# No frame begins like this, since it begins with its length: od's 000000 and 0000000, Wireshark's 0000 and a gap.
_OFFSET_ZERO = re.compile(r"\s*(?:0{6,7}\s+(?:[0-9a-f]{2})+|0{4,16}\s{2,}[0-9a-f]{2})(?:\s|$)", re.I)


def hexdump(data: bytes, start: int = 0, width: int = 16) -> Iterator[str]:
    """Yield lines of offset, `width` bytes and their ASCII, like hexdump -C; the first offset is `start`."""
    columns = width * 3 + (width > 8)
    for position in range(0, len(data), width):
        row = data[position : position + width]
        digits = f"{row[:8].hex(' ')}  {row[8:].hex(' ')}"
        yield f"{start + position:08x}  {digits:<{columns}} |{printable_ascii(row)}|"


def printable_ascii(data: bytes) -> str:
    """Return the bytes as text: printable ASCII unchanged, a dot for every other byte."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a dump; `after_star` means that the line before it is ``*``, which replaces equal lines."""

    line: int
    column: int
    offset: str
    data: bytes
    after_star: bool = False


def first_row(lines: Sequence[str]) -> int | None:
    """Return the index of the first line of a dump; None if the text is not a dump."""
    content_lines = [index for index, line in enumerate(lines) if not _SKIPPED_LINE.match(line)]
    if content_lines and (
        _OFFSET_ZERO.match(lines[content_lines[0]]) or _offsets_agree([lines[index] for index in content_lines])
    ):
        return content_lines[0]
    after_text = False
    for index in content_lines:
        offset = _OFFSET.match(lines[index])
        if offset and (offset[2] or _has_text_bars(lines[index]) or (after_text and _OFFSET_ZERO.match(lines[index]))):
            return index
        after_text = after_text or _HEX.fullmatch(lines[index]) is None
    return None


def _has_text_bars(line: str) -> bool:
    line = line.rstrip()
    return (line.endswith("|") and line.count("|") > 1) or (line.endswith("<") and ">" in line)


def _offsets_agree(lines: Sequence[str]) -> bool:
    """Whether most lines begin with an offset, i.e. the number of bytes in the lines before them."""
    try:
        rows = [_parse_row(line, 1) for line in lines]
    except HexError:
        return False
    return 2 * _count_consecutive(rows, _find_radix(rows)) > len(rows) - 1


def read_dumps(lines: Sequence[str], first: int) -> list[bytes]:
    """Return the bytes of each dump in the text, and check all offsets. `lines[first]` is the first row of all dumps.

    Lines before a dump that starts at offset 0 are skipped, such as the line that tcpdump prints for each packet.
    """
    indented = [bool(_INDENTED.match(line)) for line in lines]
    if any(indented[first:]) and not indented[first]:  # Wireshark indents the server's lines
        rows = [line if index >= first else "" for index, line in enumerate(lines)]
        client_lines = [line if not indented[index] else "" for index, line in enumerate(rows)]
        server_lines = [line if indented[index] else "" for index, line in enumerate(rows)]
        return [
            _read_dump(client_lines, first, len(lines)),
            _read_dump(server_lines, indented.index(True, first), len(lines)),
        ]
    starts = [first, *(index for index in range(first + 1, len(lines)) if _starts_dump(lines[index]))]
    return [
        _read_dump(lines, start, _end_of_rows(lines, start, end))
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]


def _starts_dump(line: str) -> bool:
    """Whether a line is the first of a dump: offset 0, and bytes."""
    offset = _OFFSET.match(line)
    return offset is not None and not offset[1].strip("0") and _GROUP.match(line, offset.end()) is not None


def _end_of_rows(lines: Sequence[str], start: int, end: int) -> int:
    """Return the end of a dump that is followed by another one; the lines in between belong to neither."""
    if end == len(lines):
        return end
    return next(
        index for index in range(end, start, -1) if lines[index - 1].strip() == "*" or _OFFSET.match(lines[index - 1])
    )


def _read_dump(lines: Sequence[str], first: int, end: int) -> bytes:
    rows: list[_Row] = []
    star_line = 0
    for number, line in enumerate(lines[first:end], first + 1):
        if line.strip() == "*":
            star_line = number
        elif not _SKIPPED_LINE.match(line):
            rows.append(_parse_row(line, number, after_star=bool(star_line)))
            star_line = 0
    if star_line:
        raise HexError(
            "the line after '*' is missing: its offset shows how many bytes '*' replaces", line=star_line, column=1
        )
    radix = _find_radix(rows)
    start = int(rows[0].offset, radix)
    preceding = [number for number, line in enumerate(lines[:first], 1) if not _SKIPPED_LINE.match(line)]
    if preceding and start:
        raise HexError(
            f"this is not a dump line, but the next one has offset {rows[0].offset}", line=preceding[0], column=1
        )
    data = bytearray()
    width = 0
    for row in rows:
        missing = int(row.offset, radix) - start - len(data)
        if row.after_star and width and missing >= 0 and missing % width == 0:  # busybox also prints '*' for no lines
            if missing > MAX_FRAME_BYTES:
                raise HexError(f"'*' replaces {missing} bytes, more than a frame can have", line=row.line, column=1)
            data += data[-width:] * (missing // width)
        elif missing:
            raise _wrong_offset_error(row, start + len(data), radix)
        data += row.data
        width = len(row.data)
    return bytes(data)


def _wrong_offset_error(row: _Row, expected: int, radix: int) -> HexError:
    expected_text = f"{expected:0{len(row.offset)}{ {8: 'o', 10: 'd', 16: 'x'}[radix] }}"
    message = f"expected offset {expected_text}, got {row.offset}: lines or bytes are missing or duplicated"
    return HexError(message, line=row.line, column=row.column)


def _parse_row(line: str, number: int, *, after_star: bool = False) -> _Row:
    offset = _OFFSET.match(line)
    if offset is None:
        raise HexError("this line of the dump has no offset: remove it or restore it", line=number, column=1)
    position, digits = offset.end(), ""
    while group := _GROUP.match(line, position):
        gap, word = group[1], group[2]
        # Two spaces end the bytes, except in the middle of hexdump -C's sixteen.
        if digits and gap != " " and not (gap == "  " and len(digits) == 16 and not offset[2]):
            break
        if len(word) % 2:
            raise HexError(f"'{word}' has an odd number of hex digits", line=number, column=group.start(2) + 1)
        if len(word) > 2 and not offset[2]:
            message = "these are 16-bit words in machine byte order: dump with hexdump -C, od -t x1 or xxd"
            raise HexError(message, line=number, column=group.start(2) + 1)
        digits += word
        position = group.end()
    if not (_TEXT_COLUMN.match(line, position) if digits else line[position:].isspace() or position == len(line)):
        stray = re.compile(r"[^\s0-9a-fA-F]").search(line, position)
        assert stray
        raise HexError(f"{stray[0]!r} is not a hex digit", line=number, column=stray.start() + 1)
    data = bytes.fromhex(digits)
    extra = _HEX_AFTER_GAP.match(line, position)
    if extra and not printable_ascii(data).replace(" ", "").startswith(extra[1]):
        message = f"'{extra[1]}' after the gap may be bytes or text: close the gap or remove the text"
        raise HexError(message, line=number, column=extra.start(1) + 1)
    return _Row(number, offset.start(1) + 1, offset[1], data, after_star)


def _find_radix(rows: Sequence[_Row]) -> int:
    """Return the radix (16, 8 or 10) that makes the most offsets consecutive. Seven digits suggest octal (od)."""
    order = (8, 10, 16) if len(rows[0].offset) == 7 else (16, 10, 8)
    digits = set("".join(row.offset.lower() for row in rows))
    possible_radixes = [radix for radix in order if digits <= set("0123456789abcdef"[:radix])]
    return max(possible_radixes, key=lambda radix: _count_consecutive(rows, radix))


def _count_consecutive(rows: Sequence[_Row], radix: int) -> int:
    count = 0
    for row, next_row in pairwise(rows):
        step, width = int(next_row.offset, radix) - int(row.offset, radix), len(row.data)
        count += (width and step >= width and step % width == 0) if next_row.after_star else 0 < width == step
    return count
