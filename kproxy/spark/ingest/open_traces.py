"""Traces that are being written: up to which byte their lines are whole, and the lines between two such bytes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kproxy.spark.ingest.decode import CaptureOptions, decode_file, is_growing, local_path, part_of, whole_name
from kproxy.trace.reader import trace_files

_BLOCK = 1 << 16


def sizes_below(directory: str) -> dict[str, int]:
    """The traces below a directory, by the path in it that they have when they are whole: how many bytes of them are.

    Compressed ones are there when they are whole. A trace that is renamed meanwhile is there all the same.

    Raises:
        FileNotFoundError: There is no such directory (any more).
    """
    root = Path(directory)
    if not root.is_dir():
        raise FileNotFoundError(f"{directory}: the directory is gone")
    sizes: dict[str, int] = {}
    # Those that grow come first: one that gets its name meanwhile is in the second list, or else was in the first.
    for path in (*root.rglob(".*.jsonl.part"), *trace_files(root)):
        name = whole_name(path.relative_to(root).as_posix())
        with contextlib.suppress(FileNotFoundError):  # it is deleted
            if name.endswith(".jsonl") and is_growing(path.name):
                sizes[name] = _whole_lines(path) if path.exists() else (root / name).stat().st_size
            elif not is_growing(path.name):
                sizes[name] = path.stat().st_size
    return {name: size for name, size in sizes.items() if size}


def _whole_lines(path: Path) -> int:
    """The byte behind the last line that is whole."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _BLOCK)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def read_between(uri: str, start: int, end: int) -> Iterator[bytes | str]:
    """The lines of a trace from the byte `start` to `end`, by the URI that it has when it is whole.

    Raises:
        FileNotFoundError: It is there neither by this name nor while it is written.
    """
    path = local_path(uri)
    if not path.name.endswith(".jsonl"):
        yield from decode_file(uri, CaptureOptions())
        return
    # Twice its own name, since it may get it between the two.
    found = next((each for each in (path, part_of(path), path) if each.exists()), path)
    with found.open("rb") as file:
        file.seek(start)
        while start < end and (line := file.readline()):
            start += len(line)
            if line.strip():
                yield line
