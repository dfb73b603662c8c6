"""Read traces in tests as plain JSON, deliberately without kproxy's own reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def trace_files(directory: Path) -> list[Path]:
    """Return complete files and files that are still being written, the oldest first."""
    paths = [*directory.glob("date=*/hour=*/kproxy-*.jsonl"), *directory.glob("date=*/hour=*/.kproxy-*.jsonl.part")]
    return sorted(paths, key=lambda path: (path.parent, int(path.name.split("-")[-1].split(".")[0])))


def read_lines(directory: Path, *, torn_end: bool = False) -> list[Line]:
    """Return all lines of a trace; with `torn_end`, the last line of a file may still be incomplete."""
    try:
        return _read_lines(directory, torn_end=torn_end)
    except FileNotFoundError:  # kproxy has just renamed a file
        return read_lines(directory, torn_end=torn_end)


def _read_lines(directory: Path, *, torn_end: bool) -> list[Line]:
    lines: list[Line] = []
    for path in trace_files(directory):
        complete, _, incomplete = path.read_bytes().rpartition(b"\n")
        assert torn_end or not incomplete, f"{path} ends in the middle of a line"
        lines += map(json.loads, complete.splitlines())
    return lines


def traced_frames(lines: list[Line], kind: str) -> list[tuple[int, int]]:
    """Return (offset, size) of the requests or responses in a trace, in order."""
    return [(line["offset"], line["size"]) for line in lines if line["kind"] == kind]


def all_findings(lines: list[Line]) -> list[Line]:
    """Return the findings in frames, and those with lines of their own."""
    return [
        finding for line in lines for finding in ([line] if line["kind"] == "finding" else line.get("findings", []))
    ]
