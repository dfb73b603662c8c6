"""Reads trace files, whether plain or compressed (gzip, zstd), complete or truncated."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import msgspec

from kproxy.errors import UserError
from kproxy.io.compression import DAMAGE, ZSTD_MAGIC, open_compressed
from kproxy.trace.encoding import parse_line
from kproxy.trace.formatting import safe
from kproxy.trace.lines import FORMAT, Line

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".jsonl.part", ".jsonl.zst.part")
_CHUNK = 1 << 20
#: Maximum number of invalid lines that a message names.
_MAX_NAMED = 3
#: The size of the longest line that is read. Lines have the bodies only of frames up to 16 MiB.
MAX_PER_LINE: Final = 256 << 20


class TraceError(UserError):
    """The input is not a trace, or has a newer format. The message is one sentence that tells what to do."""


def trace_files(directory: Path) -> list[Path]:
    """Return the trace files in a directory tree, sorted by path, including those that are still being written."""
    return sorted(path for path in directory.rglob("*.jsonl*") if path.name.endswith(SUFFIXES) and path.is_file())


@dataclass(frozen=True, slots=True)
class OpenedInput:
    """An opened input: `lines` of a trace, or None if it is something else; then `source` is at its first byte."""

    lines: Iterator[Line] | None
    source: io.BufferedReader[Any]


def open_trace(
    file: BinaryIO, name: str, warn: Callable[[str], None], report_damage: Callable[[str], None] | None = None
) -> OpenedInput:
    """Detect whether an open file is a trace, without seeking. An empty file named like a trace is one.

    Args:
        file: The open file.
        name: Its name, for messages.
        warn: Called, while the lines are read, with a sentence if the end is incomplete, as after a killed run.
        report_damage: Called with a sentence about lines that are lost elsewhere. The default is `warn`.

    Raises:
        TraceError: While the lines are read, like `read_trace`.
    """
    source: io.BufferedReader[Any] = io.BufferedReader(cast("io.RawIOBase", file), _CHUNK)
    start = source.peek(4096)
    plain = _decompressed_start(start)
    # If the first bytes are not enough (a pipe, an empty file), the name decides; proxies compress with zstd.
    is_trace = plain.startswith(b"{") if plain else name.endswith(SUFFIXES) or start.startswith(ZSTD_MAGIC)
    return OpenedInput(read_trace(source, name, warn, report_damage) if is_trace else None, source)


def _decompressed_start(data: bytes) -> bytes:
    """Return the first bytes of a file, decompressed and without leading whitespace; empty if more input is needed."""
    if compressed := open_compressed(io.BytesIO(data), data):
        try:
            data = compressed.file.read1(64)
        except (EOFError, *DAMAGE):
            return b""
    return data.lstrip()


def read_trace(
    source: io.BufferedReader[Any],
    name: str,
    warn: Callable[[str], None],
    report_damage: Callable[[str], None] | None = None,
) -> Iterator[Line]:
    """Yield the lines of one open trace file.

    Invalid lines are skipped. `report_damage` (by default `warn`) is then called once, with a sentence that counts them
    and names the first ones. An incomplete last line is also skipped, and `warn` is called.

    Raises:
        TraceError: The first line is not a line of a trace, or has a newer format.
    """
    report_damage = report_damage or warn
    bad_count = total = 0
    messages: list[str] = []
    for number, raw_line in _numbered_lines(source, name, warn, report_damage):
        total += 1
        try:
            line = parse_line(raw_line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if total == 1:
                raise TraceError(_error_text(name, raw_line, error)) from None
            bad_count += 1
            if bad_count <= _MAX_NAMED:
                messages.append(f"line {number}: {safe(str(error))}")
            continue
        yield line
    if bad_count:
        more = [f"and {bad_count - _MAX_NAMED} more"] if bad_count > _MAX_NAMED else []
        report_damage(
            f"{name}: {bad_count} of {total} lines could not be read and were skipped: {'; '.join(messages + more)}"
        )


def _error_text(name: str, raw_line: bytes, error: Exception) -> str:
    try:
        format_ = msgspec.json.decode(raw_line, type=dict).get("v")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        format_ = None
    if isinstance(format_, int) and format_ > FORMAT:
        return f"{name} has trace format {format_}, this kproxy reads formats up to {FORMAT}: upgrade kproxy"
    return f"{name} is not a kproxy trace: {error}"


def raw_lines(source: io.BufferedReader[Any], name: str, warn: Callable[[str], None]) -> Iterator[bytes]:
    """Return the undecoded lines of one open trace file, whether valid or not, except an incomplete last line."""
    return (line for _, line in _numbered_lines(source, name, warn, warn))


def _numbered_lines(
    source: io.BufferedReader[Any], name: str, warn: Callable[[str], None], report_damage: Callable[[str], None]
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are neither empty nor too long, with their numbers in the file, counted from 1."""
    partial = bytearray()
    number, is_skipped = 1, False  # of the line that begins with `partial`
    for chunk in _decompressed_chunks(source, name, warn, report_damage):
        first, *following_lines = chunk.split(b"\n")
        if not is_skipped:
            partial += first
            if len(partial) > MAX_PER_LINE:
                report_damage(f"{name}: line {number} is longer than {MAX_PER_LINE >> 20} MiB and was skipped")
                partial, is_skipped = bytearray(), True
        if following_lines:
            if partial:
                yield number, bytes(partial)
            *whole_lines, last_line = following_lines
            for line_number, line in enumerate(whole_lines, number + 1):
                if line:
                    yield line_number, line
            partial, is_skipped = bytearray(last_line), False
            number += len(following_lines)
    if partial:
        try:
            parse_line(bytes(partial))
        except (msgspec.DecodeError, UnicodeDecodeError):
            warn(f"{name}: the last line is incomplete and was skipped")
        else:
            yield number, bytes(partial)


def _decompressed_chunks(
    source: io.BufferedReader[Any], name: str, warn: Callable[[str], None], report_damage: Callable[[str], None]
) -> Iterator[bytes]:
    """Yield decompressed chunks. If compressed data is damaged, yield everything before the damage."""
    compressed = open_compressed(source, source.peek(4))
    file = compressed.file if compressed else source
    try:
        while chunk := file.read1(_CHUNK):
            yield chunk
    except (EOFError, *DAMAGE) as error:
        report = warn if isinstance(error, EOFError) else report_damage
        report(f"{name}: compressed data ends early ({error}); everything before that point was read")
