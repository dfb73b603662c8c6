"""Files of the machine of the driver, which Python lists and reads without a Spark job for each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

#: Characters of Hadoop's globs.
_GLOB = frozenset("*?[]{}\\")


def local_input(spark: SparkSession, path: str) -> Path | None:
    """Return the existing local file or directory that Spark would read at a path; None if it is none, or a glob."""
    if is_remote() or urlsplit(path).scheme not in ("", "file") or _GLOB & set(path):
        return None
    default = spark._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
    here = Path(path.removeprefix("file:"))
    is_local = path.startswith("file:/") or str(default).startswith("file:")
    return here if is_local and here.exists() else None


def files_below(root: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files at or below a path, with their sizes in bytes; without hidden ones, as Spark does.

    Raises:
        OSError: A directory cannot be read, or a file was deleted meanwhile.
    """
    if not root.is_dir():
        if not _is_hidden(root.name):
            yield root, root.stat().st_size
        return
    for folder, folders, names in os.walk(root, onerror=_raise, followlinks=True):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        for name in names:
            if not _is_hidden(name):
                path = Path(folder, name)
                yield path, path.stat().st_size


def _is_hidden(name: str) -> bool:
    """Whether Spark skips a file or directory of this name (HadoopFSUtils.shouldFilterOutPathName)."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def _raise(error: OSError) -> None:
    raise error
