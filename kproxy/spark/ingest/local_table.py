"""A Parquet table in a local directory: how a batch becomes part of it.

The rows of a batch are written to ``_new/NAME``, which other readers of Parquet skip. Then its record is written to
``_files/batch=N``, which is atomic and makes the batch part of the table. Then its directory gets the name ``batch=N``.
A run that is killed before it writes the record leaves nothing that anyone reads; a run that is killed later leaves the
last step to the next run. So other readers only see complete batches.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

#: Spark, pyarrow and Hive do not read directories whose names begin with an underscore.
_STAGING, _RECORDS = "_new", "_files"
_SUFFIX: Final = ".json"


def is_table(folder: Path) -> bool:
    """Whether a directory contains a table of any format."""
    return (folder / _RECORDS).exists()


def records(folder: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a table in a local directory, with the numbers of their batches."""
    for path in sorted((folder / _RECORDS).glob(f"batch=*/[!._]*{_SUFFIX}")):
        number = int(path.parent.name.partition("=")[2])
        for line in path.read_bytes().splitlines():
            yield number, msgspec.json.decode(line)


def new_folder(folder: Path) -> Path:
    """Return the path of a new directory for the rows of a batch; it does not exist yet."""
    return folder / _STAGING / str(uuid4())


def write_record(folder: Path, number: int, record: dict[str, Any]) -> None:
    """Write the only record of a batch, which makes it part of the table."""
    directory = folder / _RECORDS / f"batch={number}"
    shutil.rmtree(directory, ignore_errors=True)  # from a run that was killed
    shutil.rmtree(folder / f"batch={number}", ignore_errors=True)
    directory.mkdir(parents=True)
    name = f"part-00000-{uuid4()}{_SUFFIX}"
    temporary = directory / f".{name}"
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(record) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(directory / name)


def batch_folder(folder: Path, number: int, staged: str | None) -> Path:
    """Return the directory with the rows of a batch; it may not have its final name yet."""
    final_folder = folder / f"batch={number}"
    if staged is None or final_folder.exists():
        return final_folder
    staged_path = folder / _STAGING / staged
    return staged_path if staged_path.exists() else final_folder  # renamed meanwhile


def finish(folder: Path) -> None:
    """Complete the last step for all batches that are part of the table, and remove all other data."""
    staging_root = folder / _STAGING
    batches = list(records(folder))
    for _, record in batches:
        for number in record.get("replaces") or ():
            if (replaced := folder / f"batch={number}").exists():  # in one step, so that no reader sees part of it
                staging_root.mkdir(exist_ok=True)
                replaced.rename(staging_root / f"replaced-{number}-{uuid4()}")
    for number, record in batches:
        current = batch_folder(folder, number, record.get("staged"))
        if current.parent == staging_root:
            current.rename(folder / f"batch={number}")
    for _, record in batches:
        for number in record.get("replaces") or ():
            shutil.rmtree(folder / _RECORDS / f"batch={number}", ignore_errors=True)
    shutil.rmtree(staging_root, ignore_errors=True)


def data_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a batch."""
    return sorted(path for path in folder.rglob("*.parquet") if not path.name.startswith(("_", ".")))
