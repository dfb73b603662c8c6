"""One writer at a time: a lock on a local table, released when the writing process ends.

Java holds it, because Java writes: it may outlive this process for a moment, and its end always releases the lock.
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
        Whether there is a lock: not with a Spark Connect server, and only on local file systems, because no lock works
        everywhere.
    """
    folder = None if is_remote() else local_folder(spark, table)
    if folder is None:
        yield False
        return
    jvm: Any = spark._jvm
    jvm.java.io.File(folder).mkdirs()
    file = jvm.java.io.RandomAccessFile(f"{folder}/{_NAME}", "rw")
    try:
        if not _is_locked(file):
            waiting()
            while not _is_locked(file):
                time.sleep(_PAUSE_S)
        yield True
    finally:
        file.close()


def _is_locked(file: Any) -> bool:
    try:
        return file.getChannel().tryLock() is not None
    except Py4JJavaError as error:
        if "OverlappingFileLockException" in str(error.java_exception):  # another thread of this process has it
            return False
        raise


def local_folder(spark: SparkSession, path: str) -> str | None:
    """Return the path of a local directory, as given to Spark; None if it is not local."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)
    system = hadoop.getFileSystem(spark._jsc.hadoopConfiguration())
    found = system.makeQualified(hadoop).toUri()
    return str(found.getPath()) if found.getScheme() == "file" else None


def delete(spark: SparkSession, path: str) -> None:
    """Delete a directory on any file system of Spark."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)
    hadoop.getFileSystem(spark._jsc.hadoopConfiguration()).delete(hadoop, True)
