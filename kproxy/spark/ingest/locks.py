"""One writer at a time: a lock on a table of this machine, which ends with the process that writes.

Java holds it, since Java writes: it may outlive this process for a moment, and its death always frees the lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

_NAME = "_lock"
_PAUSE_S = 0.2


@contextmanager
def locked(spark: SparkSession, table: str, waiting: Callable[[], object]) -> Iterator[bool]:
    """Hold the lock of a table; `waiting` is called once if another run has it.

    Yields:
        Whether there is a lock: not of a Spark Connect server, and not in a file system other than that of this
        machine, where nothing like it works everywhere.
    """
    folder = None if is_remote() else _local_folder(spark, table)
    if folder is None:
        yield False
        return
    jvm: Any = spark._jvm
    jvm.java.io.File(folder).mkdirs()
    file = jvm.java.io.RandomAccessFile(f"{folder}/{_NAME}", "rw")
    try:
        if not _is_taken(file):
            waiting()
            while not _is_taken(file):
                time.sleep(_PAUSE_S)
        yield True
    finally:
        file.close()


def _is_taken(file: Any) -> bool:
    try:
        return file.getChannel().tryLock() is not None
    except Py4JJavaError as error:
        if "OverlappingFileLockException" in str(error.java_exception):  # another thread of this process has it
            return False
        raise


def _local_folder(spark: SparkSession, path: str) -> str | None:
    """The path of a directory of this machine, as Spark takes it; None if it is elsewhere."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)
    system = hadoop.getFileSystem(spark._jsc.hadoopConfiguration())
    found = system.makeQualified(hadoop).toUri()
    return str(found.getPath()) if found.getScheme() == "file" else None


def delete(spark: SparkSession, path: str) -> None:
    """Delete a directory wherever Spark writes."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)
    hadoop.getFileSystem(spark._jsc.hadoopConfiguration()).delete(hadoop, True)
