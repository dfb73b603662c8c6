"""Files on this machine, which Python lists and reads without an engine."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from kproxy.spark.session.embedded_engine import is_embedded

#: Special characters in Hadoop's globs.
_GLOB = frozenset("*?[]{}\\")


def local_input(spark: SparkSession | None, path: str) -> Path | None:
    """Return the existing local file or directory that an engine would read; None for a glob, or if missing."""
    local = local_output(spark, path)
    return local if local is not None and not _GLOB & set(path) and local.exists() else None


def local_output(spark: SparkSession | None, path: str) -> Path | None:
    """Return the local path that an engine would write to, which need not exist; None if the path is not local."""
    if not uses_local_files(spark) or urlsplit(path).scheme not in ("", "file"):
        return None
    if spark is not None and not is_remote() and not path.startswith("file:/"):
        default_fs = spark._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")
        if not str(default_fs).startswith("file:"):
            return None
    return Path(path.removeprefix("file:"))


def uses_local_files(spark: SparkSession | None) -> bool:
    """Whether an engine uses the files on this machine, unlike a Spark Connect server. None means Python itself."""
    return spark is None or not is_remote() or is_embedded(spark)


def is_one_machine(spark: SparkSession | None) -> bool:
    """Whether an engine runs only on this machine, neither on a cluster nor in the processes of local-cluster."""
    if spark is None or is_embedded(spark):
        return True
    return not is_remote() and re.match(r"local(\[|$)", str(spark.conf.get("spark.master", ""))) is not None


def glob_paths(pattern: str) -> list[Path]:
    """Return the local paths that a pattern matches, sorted."""
    return sorted(map(Path, glob.glob(pattern.removeprefix("file:"))))  # noqa: PTH207  # it may be absolute


def files_below(root: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files at or under a path, with their sizes in bytes, except hidden files, which Spark also skips.

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
    """Whether Spark skips a file or directory with this name (HadoopFSUtils.shouldFilterOutPathName)."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def _raise(error: OSError) -> None:
    raise error
