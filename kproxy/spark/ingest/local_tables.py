"""Writes the lines of local files to a local directory of Parquet, with Arrow in a pool of processes.

That takes half the CPU of parsing and writing in Java, and needs no engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark

from kproxy.spark.ingest.arrow import BatchReader
from kproxy.spark.ingest.arrow_types import arrow_schema
from kproxy.spark.ingest.decode import CaptureOptions, decode_file, local_path
from kproxy.spark.ingest.files import EXAMPLE_CHARACTERS
from kproxy.spark.ingest.inputs import File
from kproxy.spark.ingest.process_pool import run_tasks
from kproxy.spark.ingest.schema import ROW

#: The maximum and minimum size of a task: reading the minimum takes about as long as starting a process.
_TASK_BYTES, _MIN_TASK_BYTES = 64 << 20, 8 << 20
#: How many times longer a byte of a compressed trace or of a capture takes.
_SLOWDOWN = 10
#: Bytes of a block, which is parsed at once, and of the rows that a task keeps in memory before it writes them.
_BLOCK_BYTES, _BUFFER_BYTES = 4 << 20, 128 << 20
_NO_HOUR: Final = "date=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__"

#: Without this metadata, Spark assumes that the file uses the calendar of Spark 2, and refuses times before 1582.
METADATA: Final = {"org.apache.spark.version": pyspark.__version__}


class Piece(NamedTuple):
    """The lines of a plain trace that begin at a byte from `start` up to `end`, or the whole of another file."""

    uri: str
    plain: bool
    start: int
    end: int


@dataclass(slots=True)
class WrittenCounts:
    """The aggregates of `kproxy.spark.ingest.files.counts` and `bad_files`."""

    lines: int = 0
    corrupt: int = 0
    examples: set[str] = field(default_factory=set)
    corrupt_files: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    damaged_files: set[str] = field(default_factory=set)

    def add(self, other: WrittenCounts) -> None:
        """Add the counts of other rows."""
        self.lines += other.lines
        self.corrupt += other.corrupt
        self.examples = {min(candidates)} if (candidates := self.examples | other.examples) else set()
        self.corrupt_files |= other.corrupt_files
        self.damaged |= other.damaged
        self.damaged_files |= other.damaged_files

    def as_dict(self) -> dict[str, Any]:
        """Return the values by the names of the aggregates."""
        return {
            "lines": self.lines,
            "corrupt": self.corrupt,
            "example": min(self.examples, default=None),
            "corrupt_files": sorted(self.corrupt_files),
            "damaged": sorted(self.damaged),
            "damaged_files": len(self.damaged_files),
        }


def write_files(files: Sequence[File], folder: Path, options: CaptureOptions) -> dict[str, Any]:
    """Write the lines of local files to ``date=…/hour=…`` in a new directory; return their counts."""
    folder.mkdir(parents=True)  # also if there are no lines
    total = WrittenCounts()
    tasks = list(enumerate(_split_into_tasks(files)))
    for counts in run_tasks(partial(_write_task, str(folder), str(uuid4()), options), tasks):
        total.add(counts)
    return total.as_dict()


def _split_into_tasks(files: Sequence[File]) -> Iterator[list[Piece]]:
    """Divide files into tasks of similar size, in order, so that each task writes only a few hours."""
    share = sum(map(_weight, files)) // (2 * len(os.sched_getaffinity(0)))
    max_bytes = min(_TASK_BYTES, max(_MIN_TASK_BYTES, share))
    task: list[Piece] = []
    size = 0
    for file in files:
        starts = range(0, file.size, max_bytes) if file.plain else (0,)
        for start in starts:
            piece = Piece(file.uri, file.plain, start, min(start + max_bytes, file.size) if file.plain else file.size)
            weight = piece.end - start if file.plain else _weight(file)
            if task and size + weight > max_bytes:
                yield task
                task, size = [], 0
            task.append(piece)
            size += weight
    yield task


def _weight(file: File) -> int:
    """Return how many bytes of a plain trace take about as long as the file."""
    return file.size if file.plain else _SLOWDOWN * file.size


def _write_task(
    folder: str, write_id: str, options: CaptureOptions, task: tuple[int, Sequence[Piece]]
) -> WrittenCounts:
    """Write the rows of a task, one file per hour, or several if the rows do not fit in memory."""
    number, pieces = task
    reader, total = BatchReader(ROW), WrittenCounts()
    pending: list[pa.RecordBatch] = []
    parts = 0

    def flush() -> None:
        nonlocal parts
        rows = pa.Table.from_batches(pending, arrow_schema(ROW))
        total.add(_count_lines(rows))
        _write_hours(rows, Path(folder), f"part-{number:05d}-{write_id}.c{parts:03d}.zstd.parquet")
        pending.clear()
        parts += 1

    size = 0
    for piece in pieces:
        for batch in _batches(reader, piece, options):
            pending.append(batch)
            size += batch.nbytes
            if size >= _BUFFER_BYTES:
                flush()
                size = 0
    if pending:
        flush()
    return total


def _batches(reader: BatchReader, piece: Piece, options: CaptureOptions) -> Iterator[pa.RecordBatch]:
    if piece.plain:
        for block in _blocks(piece):
            yield from reader.read_block(block, piece.uri)
    else:
        yield from reader.read(decode_file(piece.uri, options), piece.uri)


def _blocks(piece: Piece) -> Iterator[bytes]:
    """Yield the lines that begin in a piece, in blocks of whole lines."""
    with local_path(piece.uri).open("rb") as file:
        if piece.start:
            file.seek(piece.start - 1)
            file.readline()  # a line that began in the previous piece
        while (position := file.tell()) < piece.end and (block := file.read(min(_BLOCK_BYTES, piece.end - position))):
            yield block + (b"" if block.endswith(b"\n") else file.readline())


def _count_lines(rows: pa.Table) -> WrittenCounts:
    counts = WrittenCounts(lines=rows.num_rows)
    for name in ("corrupt", "damage"):
        if rows[name].null_count < rows.num_rows:
            bad_rows = rows.filter(rows[name].is_valid())
            texts, files = bad_rows[name].to_pylist(), bad_rows["file"].to_pylist()
            counts.lines -= bad_rows.num_rows
            if name == "corrupt":
                counts.corrupt = bad_rows.num_rows
                counts.corrupt_files |= set(files)
                examples = (f"{file}: {text[:EXAMPLE_CHARACTERS]}" for file, text in zip(files, texts, strict=True))
                counts.examples = {min(examples)}
            else:
                counts.damaged |= set(texts)
                counts.damaged_files |= set(files)
    return counts


def _write_hours(rows: pa.Table, folder: Path, name: str) -> None:
    """Write rows to the directories of their UTC hours."""
    rows = rows.replace_schema_metadata(METADATA)
    hours = pc.floor_temporal(rows["ts"], unit="hour")
    for hour in hours.unique():
        if hour.is_valid:
            start = hour.as_py()
            hour_rows, hour_folder = (
                rows.filter(pc.equal(hours, hour)),
                f"date={start.date().isoformat()}/hour={start.hour:02d}",
            )
        else:
            hour_rows, hour_folder = rows.filter(hours.is_null()), _NO_HOUR
        path = folder / hour_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(hour_rows, path, compression="zstd", store_schema=False)
