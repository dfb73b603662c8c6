"""Decodes captures, compressed traces and growing traces into JSON lines, because Spark cannot read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote, urlsplit

from kproxy.capture import Capture, CaptureError
from kproxy.capture.lines import CaptureLines, stem_of
from kproxy.inspection.inspector import Inspector
from kproxy.trace.encoding import append_line
from kproxy.trace.lines import Detail
from kproxy.trace.reader import SUFFIXES, OpenedInput, open_trace, raw_lines

#: The characters that Java escapes as %XX in URIs; it leaves others unescaped (RFC 2396).
_NOT_IN_URIS = re.compile(r"[\0- \x7f\"#%<>?\[\\\]^`{|}]")


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """How captures are decoded: Kafka's ports (if empty, found by content), and the path of a TLS key log."""

    ports: frozenset[int] = frozenset()
    keylog: str | None = None


def lines_of(uri: str, options: CaptureOptions, *, plain: bool) -> Iterator[bytes | str]:
    """Yield the lines of a file: of a `plain` trace all that are not blank, even an incomplete last one.

    Other files are read by `decode_file`.

    Raises:
        OSError: The file cannot be opened.
    """
    if not plain:
        yield from decode_file(uri, options)
        return
    with local_path(uri).open("rb") as file:
        yield from (line for line in file if not line.isspace())


def decode_file(uri: str, options: CaptureOptions) -> Iterator[bytes | str]:
    """Yield the lines of a local file, given by URI, as `decode` does; of a growing trace, only the complete lines.

    Raises:
        OSError: The file cannot be opened.
    """
    path = local_path(uri)
    growing = is_growing(uri)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        if not growing:
            raise
        file = Path(final_path(str(path))).open("rb")  # noqa: SIM115  # closed below; it has its final name by now
    with file:
        yield from decode(file, str(path), options, growing=growing)


def local_path(uri: str) -> Path:
    """Return the path of a local file."""
    return Path(unquote(urlsplit(uri).path))


def uri_of(path: Path) -> str:
    """Return the URI of a local file as Spark writes it: file:/tmp/date=1, not file:///tmp/date%3D1."""
    return "file:" + _NOT_IN_URIS.sub(lambda match: quote(match[0], safe=""), str(path.absolute()))


def is_growing(path: str) -> bool:
    """Whether a path or URI belongs to a trace that is being written."""
    return path.endswith(".part")


def final_path(path: str) -> str:
    """Return the path or URI that a growing trace will have when it is complete."""
    folder, _, name = path.rpartition("/")
    return f"{folder}{'/' * bool(folder)}{name.removeprefix('.').removesuffix('.part')}"


def growing_path(path: Path) -> Path:
    """Return the path that a trace has while it is being written."""
    return path.with_name(f".{path.name}.part")


def decode(file: BinaryIO, name: str, options: CaptureOptions, *, growing: bool = False) -> Iterator[bytes | str]:
    """Yield the lines of an open capture or trace, compressed or not, as `kproxy dissect --json` writes them.

    Lines of a trace are yielded unchanged, valid or not. Damage is reported by a sentence of type `str`, except at the
    end of a trace that is still `growing`.
    """
    errors: list[str] = []
    opened = open_trace(file, name, errors.append)
    with opened.source:
        yield from _opened_texts(opened, name, options, errors, growing=growing)


def _opened_texts(
    opened: OpenedInput, name: str, options: CaptureOptions, errors: list[str], *, growing: bool
) -> Iterator[bytes | str]:
    if opened.lines is not None or name.endswith(SUFFIXES):  # its first line may be damaged
        yield from (line for line in raw_lines(opened.source, name, errors.append) if not line.isspace())
        yield from () if growing else errors
        return
    try:
        yield from _capture_lines(opened.source, name, options)
    except CaptureError as error:
        yield str(error)


def _capture_lines(file: BinaryIO, name: str, options: CaptureOptions) -> Iterator[bytes | str]:
    capture = Capture(file, name, owned=False)
    inspector = Inspector(stem_of(name), Detail.SUMMARY)
    for line in CaptureLines(capture, inspector, ports=options.ports, keylog=options.keylog):
        text = bytearray()
        append_line(line, text)
        yield bytes(text)
    if capture.truncated:
        yield f"{name}: {capture.truncated}"
