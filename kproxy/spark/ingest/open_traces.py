"""Traces that are being written: the size of their complete lines, and the lines of a byte range."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kproxy.spark.ingest.decode import CaptureOptions, decode_file, final_path, growing_path, is_growing, local_path
from kproxy.trace.reader import trace_files

_BLOCK = 1 << 16


def sizes_by_path(directory: str) -> dict[str, int]:
    """Return the total size of the complete lines of each trace in a directory, by its final relative path.

    Compressed traces are included once they are complete. Traces that are renamed meanwhile are included.

    Raises:
        FileNotFoundError: The directory does not exist, or no longer exists.
    """
    root = Path(directory)
    if not root.is_dir():
        raise FileNotFoundError(f"{directory}: the directory is gone")
    sizes: dict[str, int] = {}
    # Growing files first: a file that is renamed meanwhile is then in the second list.
    for path in (*root.rglob(".*.jsonl.part"), *trace_files(root)):
        name = final_path(path.relative_to(root).as_posix())
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            if name.endswith(".jsonl") and is_growing(path.name):
                sizes[name] = _complete_size(path) if path.exists() else (root / name).stat().st_size
            elif not is_growing(path.name):
                sizes[name] = path.stat().st_size
    return {name: size for name, size in sizes.items() if size}


def _complete_size(path: Path) -> int:
    """Return the byte offset at which the last complete line ends."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _BLOCK)
            file.seek(start)
            position = file.read(end - start).rfind(b"\n")
            if position >= 0:
                return start + position + 1
            end = start
    return 0


def read_between(uri: str, start: int, end: int) -> Iterator[bytes | str]:
    """Yield the lines of a trace from byte `start` to `end`, given its final URI.

    Raises:
        FileNotFoundError: The trace exists neither under its final name nor under its name while it is being written.
    """
    path = local_path(uri)
    if not path.name.endswith(".jsonl"):
        yield from decode_file(uri, CaptureOptions())
        return
    # The final name twice: the file may be renamed between the attempts.
    existing = next((candidate for candidate in (path, growing_path(path), path) if candidate.exists()), path)
    with existing.open("rb") as file:
        file.seek(start)
        while start < end and (line := file.readline()):
            start += len(line)
            if line.strip():
                yield line
