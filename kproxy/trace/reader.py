"""Trace files back to lines: plain, gzip or zstd, whole or torn, one file or a tree of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from kproxy.errors import UserError
from kproxy.io.compression import DAMAGE, ZSTD_MAGIC, decompress
from kproxy.trace.encoding import parse_line
from kproxy.trace.lines import FORMAT, Line

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".jsonl.part", ".jsonl.zst.part")
_CHUNK = 1 << 20


class TraceError(UserError):
    """Not a trace, or of a format that this kproxy does not know; one sentence that says what to do."""


def trace_files(directory: Path) -> list[Path]:
    """The trace files below a directory, by path, those still being written included."""
    return sorted(path for path in directory.rglob("*.jsonl*") if path.name.endswith(SUFFIXES) and path.is_file())


@dataclass(frozen=True, slots=True)
class OpenedInput:
    """An input: the `lines` of a trace; or, where it is none, None, and `source` still at its first byte."""

    lines: Iterator[Line] | None
    source: io.BufferedReader[Any]


def open_trace(file: BinaryIO, name: str, warn: Callable[[str], None]) -> OpenedInput:
    """Look whether an open file is a trace, without seeking; one that is named so and empty has just begun.

    Raises:
        TraceError: While the lines are read, as `read_trace`.
    """
    source: io.BufferedReader[Any] = io.BufferedReader(cast("io.RawIOBase", file), _CHUNK)
    start = source.peek(4096)
    plain = _start(start)
    # What cannot be told yet (the beginning of a pipe, an empty file) goes by its name; proxies compress with zstd.
    is_trace = plain.startswith(b"{") if plain else name.endswith(SUFFIXES) or start.startswith(ZSTD_MAGIC)
    return OpenedInput(read_trace(source, name, warn) if is_trace else None, source)


def _start(data: bytes) -> bytes:
    """Of the first bytes of a file the first that say something, decompressed; none if that takes more of them."""
    if compressed := decompress(io.BytesIO(data), data):
        try:
            data = compressed.file.read1(64)
        except (EOFError, *DAMAGE):
            return b""
    return data.lstrip()


def read_trace(source: io.BufferedReader[Any], name: str, warn: Callable[[str], None]) -> Iterator[Line]:
    """The lines of one open trace file.

    A torn end is left out, and so is a line that is none; both are told to `warn` once, with how many.

    Raises:
        TraceError: The first line is none of a trace, or says a newer format.
    """
    bad = count = 0
    for number, raw in enumerate(raw_lines(source, name, warn), 1):
        try:
            line = parse_line(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if number == 1:
                raise TraceError(_why(name, raw, error)) from None
            bad += 1
            continue
        count += 1
        yield line
    if bad:
        warn(f"{name}: {bad} of {bad + count} lines could not be read and were skipped")


def _why(name: str, raw: bytes, error: Exception) -> str:
    try:
        format_ = msgspec.json.decode(raw, type=dict).get("v")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        format_ = None
    if isinstance(format_, int) and format_ > FORMAT:
        return f"{name} has trace format {format_}, this kproxy reads formats up to {FORMAT}: upgrade kproxy"
    return f"{name} is not a kproxy trace: {error}"


def raw_lines(source: io.BufferedReader[Any], name: str, warn: Callable[[str], None]) -> Iterator[bytes]:
    """The lines of one open trace file as text, whether they are any or not; of a torn end what is whole."""
    rest = b""
    for chunk in _plain(source, name, warn):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        yield from filter(None, lines)
    if rest:
        try:
            parse_line(rest)
        except (msgspec.DecodeError, UnicodeDecodeError):
            warn(f"{name}: the last line is incomplete and was skipped")
        else:
            yield rest


def _plain(source: io.BufferedReader[Any], name: str, warn: Callable[[str], None]) -> Iterator[bytes]:
    """Decompressed chunks; a damaged end of a compressed file gives what stands before it."""
    compressed = decompress(source, source.peek(4))
    file = compressed.file if compressed else source
    try:
        while chunk := file.read1(_CHUNK):
            yield chunk
    except (EOFError, *DAMAGE) as error:
        warn(f"{name}: compressed data ends early ({error}); everything before that point was read")
