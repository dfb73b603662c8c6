"""Reads trace files: plain, gzip or zstd, complete or truncated."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import msgspec

from kproxy.errors import UserError
from kproxy.io.compression import DAMAGE, ZSTD_MAGIC, decompress
from kproxy.trace.encoding import parse_line
from kproxy.trace.lines import FORMAT, Line

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".jsonl.part", ".jsonl.zst.part")
_CHUNK = 1 << 20
#: The longest line that is read. Frames of which a line has the body are at most 16 MiB.
MOST_OF_A_LINE: Final = 256 << 20


class TraceError(UserError):
    """Not a trace, or of a newer format. The message is one sentence with what to do."""


def trace_files(directory: Path) -> list[Path]:
    """The trace files below a directory, sorted by path, including those that are still being written."""
    return sorted(path for path in directory.rglob("*.jsonl*") if path.name.endswith(SUFFIXES) and path.is_file())


@dataclass(frozen=True, slots=True)
class OpenedInput:
    """An opened input: the `lines` of a trace; None if it is not a trace, with `source` still at its first byte."""

    lines: Iterator[Line] | None
    source: io.BufferedReader[Any]


def open_trace(file: BinaryIO, name: str, warn: Callable[[str], None]) -> OpenedInput:
    """Detect whether an open file is a trace, without seeking. An empty file with the name of a trace is one.

    Raises:
        TraceError: While the lines are read, like `read_trace`.
    """
    source: io.BufferedReader[Any] = io.BufferedReader(cast("io.RawIOBase", file), _CHUNK)
    start = source.peek(4096)
    plain = _start(start)
    # If the first bytes do not tell (a pipe, an empty file), the name decides; proxies compress with zstd.
    is_trace = plain.startswith(b"{") if plain else name.endswith(SUFFIXES) or start.startswith(ZSTD_MAGIC)
    return OpenedInput(read_trace(source, name, warn) if is_trace else None, source)


def _start(data: bytes) -> bytes:
    """The first bytes of a file, decompressed and without leading blanks; empty if more input is needed."""
    if compressed := decompress(io.BytesIO(data), data):
        try:
            data = compressed.file.read1(64)
        except (EOFError, *DAMAGE):
            return b""
    return data.lstrip()


def read_trace(source: io.BufferedReader[Any], name: str, warn: Callable[[str], None]) -> Iterator[Line]:
    """The lines of one open trace file.

    Invalid lines and an incomplete last line are skipped; `warn` is called once for each of the two.

    Raises:
        TraceError: The first line is not a trace line, or is of a newer format.
    """
    bad = count = 0
    for number, raw in enumerate(raw_lines(source, name, warn), 1):
        try:
            line = parse_line(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if number == 1:
                raise TraceError(_error_text(name, raw, error)) from None
            bad += 1
            continue
        count += 1
        yield line
    if bad:
        warn(f"{name}: {bad} of {bad + count} lines could not be read and were skipped")


def _error_text(name: str, raw: bytes, error: Exception) -> str:
    try:
        format_ = msgspec.json.decode(raw, type=dict).get("v")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        format_ = None
    if isinstance(format_, int) and format_ > FORMAT:
        return f"{name} has trace format {format_}, this kproxy reads formats up to {FORMAT}: upgrade kproxy"
    return f"{name} is not a kproxy trace: {error}"


def raw_lines(source: io.BufferedReader[Any], name: str, warn: Callable[[str], None]) -> Iterator[bytes]:
    """The undecoded lines of one open trace file, valid or not, without an incomplete last line."""
    rest = bytearray()
    done, is_skipped = 0, False
    for chunk in _plain(source, name, warn):
        first, *others = chunk.split(b"\n")
        if not is_skipped:
            rest += first
            if len(rest) > MOST_OF_A_LINE:
                warn(f"{name}: line {done + 1} is longer than {MOST_OF_A_LINE >> 20} MiB and was skipped")
                rest, is_skipped = bytearray(), True
        if others:
            if rest:
                yield bytes(rest)
            *whole, last = others
            yield from filter(None, whole)
            rest, is_skipped = bytearray(last), False
            done += len(others)
    if rest:
        try:
            parse_line(bytes(rest))
        except (msgspec.DecodeError, UnicodeDecodeError):
            warn(f"{name}: the last line is incomplete and was skipped")
        else:
            yield bytes(rest)


def _plain(source: io.BufferedReader[Any], name: str, warn: Callable[[str], None]) -> Iterator[bytes]:
    """Decompressed chunks. If compressed data is damaged, everything before the damage is returned."""
    compressed = decompress(source, source.peek(4))
    file = compressed.file if compressed else source
    try:
        while chunk := file.read1(_CHUNK):
            yield chunk
    except (EOFError, *DAMAGE) as error:
        warn(f"{name}: compressed data ends early ({error}); everything before that point was read")
