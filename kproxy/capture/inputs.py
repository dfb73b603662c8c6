"""Input files: traces and captures. In a directory, they are found by name; a single file is recognized by content."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kproxy.capture import open_capture
from kproxy.trace.reader import SUFFIXES, open_trace

#: For messages about inputs that contain neither.
NO_INPUT: Final = "no trace (*.jsonl) and no capture (*.pcap, *.pcapng)"

#: Suffixes of capture files; files that tcpdump rotates (-C) have a number after the suffix.
_CAPTURE: Final = re.compile(r"\.(pcap|pcapng|cap)\d*(\.gz|\.zst)?\Z")


def is_input(name: str) -> bool:
    """Whether a file with this name is a trace or a capture."""
    return name.endswith(SUFFIXES) or _CAPTURE.search(name) is not None


def input_files(directory: Path) -> list[Path]:
    """Return the traces and captures in a directory tree, sorted by path, including traces still being written."""
    return sorted(path for path in directory.rglob("*") if is_input(path.name) and path.is_file())


def is_trace(path: Path) -> bool:
    """Whether a file is a trace; otherwise it is a capture.

    Raises:
        OSError: The file cannot be opened.
        CaptureError: It is neither a trace nor a capture.
        TraceError: It is a trace that this kproxy cannot read.
    """
    with path.open("rb") as file:
        opened = open_trace(file, str(path), lambda _: None)
        if opened.lines is not None:
            next(opened.lines, None)
            return True
    open_capture(path).close()
    return False
