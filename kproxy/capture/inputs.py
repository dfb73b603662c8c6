"""What kproxy reads: traces and captures; in a directory they are found by their names, a file is what it contains."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kproxy.capture import open_capture
from kproxy.trace.reader import SUFFIXES, open_trace

#: Where nothing of it is found.
NO_INPUT: Final = "no trace (*.jsonl) and no capture (*.pcap, *.pcapng)"

#: How the names of captures end; those that tcpdump rotates (-C) have a number behind.
_CAPTURE: Final = re.compile(r"\.(pcap|pcapng|cap)\d*(\.gz|\.zst)?\Z")


def is_input(name: str) -> bool:
    """Whether a file of this name is a trace or a capture."""
    return name.endswith(SUFFIXES) or _CAPTURE.search(name) is not None


def input_files(directory: Path) -> list[Path]:
    """The traces and captures below a directory, by path, traces that are still being written included."""
    return sorted(path for path in directory.rglob("*") if is_input(path.name) and path.is_file())


def is_trace(path: Path) -> bool:
    """Whether a file is a trace and no capture.

    Raises:
        OSError: It cannot be opened.
        CaptureError: It is neither.
        TraceError: It is none that this kproxy can read.
    """
    with path.open("rb") as file:
        opened = open_trace(file, str(path), lambda _: None)
        if opened.lines is not None:
            next(opened.lines, None)
            return True
    open_capture(path).close()
    return False
