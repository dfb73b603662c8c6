"""What Spark cannot read by itself: captures, compressed traces, traces that are being written; as lines of JSON."""

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
from kproxy.trace.reader import SUFFIXES, open_trace, raw_lines

#: What Java's URIs write as %XX (RFC 2396); more than that they leave as it is.
_NOT_IN_URIS = re.compile(r"[\0- \x7f\"#%<>?\[\\\]^`{|}]")


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """How captures are decoded: Kafka's ports (none: found by content), and the path of a TLS key log."""

    ports: frozenset[int] = frozenset()
    keylog: str | None = None


def decode_file(uri: str, options: CaptureOptions) -> Iterator[bytes | str]:
    """The same as `decode` of a local file by its URI; of a trace that is being written what is whole.

    Raises:
        OSError: It cannot be opened.
    """
    path = local_path(uri)
    growing = is_growing(uri)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        if not growing:
            raise
        file = Path(whole_name(str(path))).open("rb")  # noqa: SIM115  # closed below; it has its name by now
    with file:
        yield from decode(file, str(path), options, growing=growing)


def local_path(uri: str) -> Path:
    """The path of a file of this machine."""
    return Path(unquote(urlsplit(uri).path))


def uri_of(path: Path) -> str:
    """The URI of a file of this machine, as Spark writes it: file:/tmp/date=1, not file:///tmp/date%3D1."""
    return "file:" + _NOT_IN_URIS.sub(lambda found: quote(found[0], safe=""), str(path.absolute()))


def is_growing(path: str) -> bool:
    """Whether a path, or a URI, is that of a trace which is being written."""
    return path.endswith(".part")


def whole_name(path: str) -> str:
    """The path, or URI, that a growing trace will have when it is whole."""
    folder, _, name = path.rpartition("/")
    return f"{folder}{'/' * bool(folder)}{name.removeprefix('.').removesuffix('.part')}"


def part_of(path: Path) -> Path:
    """The path that a trace has while it is written."""
    return path.with_name(f".{path.name}.part")


def decode(file: BinaryIO, name: str, options: CaptureOptions, *, growing: bool = False) -> Iterator[bytes | str]:
    """The lines of an open capture or trace, compressed or not, as `kproxy dissect --json` writes them.

    Those of a trace are as they stand there, whether they are lines or not. What was damaged is told in sentences, as
    `str`; the end of a trace that is still `growing` is not.
    """
    told: list[str] = []
    opened = open_trace(file, name, told.append)
    if opened.lines is not None or name.endswith(SUFFIXES):  # its first line may be the damaged one
        yield from (line for line in raw_lines(opened.source, name, told.append) if not line.isspace())
        yield from () if growing else told
        return
    try:
        yield from _captured(opened.source, name, options)
    except CaptureError as error:
        yield str(error)


def _captured(file: BinaryIO, name: str, options: CaptureOptions) -> Iterator[bytes | str]:
    capture = Capture(file, name, owned=False)
    inspector = Inspector(stem_of(name), Detail.SUMMARY)
    for line in CaptureLines(capture, inspector, ports=options.ports, keylog=options.keylog):
        text = bytearray()
        append_line(line, text)
        yield bytes(text)
    if capture.truncated:
        yield f"{name}: {capture.truncated}"
