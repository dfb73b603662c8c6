"""One writer at a time: a lock on a local table, released when the writing process ends.

If Java writes, Java holds the lock: Java may outlive this process for a moment, and its end always releases the lock.
Locks of Python and Java exclude each other, since both are POSIX locks.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

_NAME = "_lock"
_PAUSE_S = 0.2
#: The locks that this process holds; POSIX would grant them to it a second time.
_HELD: Final = set[Path]()


@contextmanager
def lock_local_table(folder: Path, on_wait: Callable[[], object]) -> Iterator[None]:
    """Hold the lock of a table in a local directory, in this process; `on_wait` is called once if another run holds it.

    Raises:
        OSError: The directory cannot be created or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / _NAME).resolve()
    with path.open("ab") as file:
        if not _try_acquire(path, file):
            on_wait()
            while not _try_acquire(path, file):
                time.sleep(_PAUSE_S)
        try:
            yield
        finally:
            _HELD.discard(path)


def _try_acquire(path: Path, file: IO[bytes]) -> bool:
    if path in _HELD:
        return False
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    _HELD.add(path)
    return True


@contextmanager
def lock_table(spark: SparkSession, table: str, on_wait: Callable[[], object]) -> Iterator[bool]:
    """Hold the lock of a table; `on_wait` is called once if another run holds it.

    Yields:
        Whether the lock is held: only on local file systems, and not with a Spark Connect server, because no lock
        works everywhere.
    """
    folder = None if is_remote() else local_folder(spark, table)
    if folder is None:
        yield False
        return
    jvm: Any = spark._jvm
    jvm.java.io.File(folder).mkdirs()
    file = jvm.java.io.RandomAccessFile(f"{folder}/{_NAME}", "rw")
    try:
        if not _try_java_lock(file):
            on_wait()
            while not _try_java_lock(file):
                time.sleep(_PAUSE_S)
        yield True
    finally:
        file.close()


def _try_java_lock(file: Any) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        return file.getChannel().tryLock() is not None
    except Py4JJavaError as error:
        if "OverlappingFileLockException" in str(error.java_exception):  # another thread of this process holds it
            return False
        raise


def local_folder(spark: SparkSession, path: str) -> str | None:
    """Return the path of a local directory, as given to Spark; None if it is not local."""
    jvm: Any = spark._jvm
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    file_system = hadoop_path.getFileSystem(spark._jsc.hadoopConfiguration())
    qualified = file_system.makeQualified(hadoop_path).toUri()
    return str(qualified.getPath()) if qualified.getScheme() == "file" else None


def delete(spark: SparkSession, path: str) -> None:
    """Delete a directory on any file system that Spark supports."""
    jvm: Any = spark._jvm
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    hadoop_path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(hadoop_path, True)
