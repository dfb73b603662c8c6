"""A Spark session for a command; its errors become one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A message that only the innermost of Spark's nested errors has.
_FULL = "No space left on device"
#: Spark's errors for a format that needs a third-party package.
_NO_PACKAGE = ("DATA_SOURCE_NOT_FOUND", "PLUGIN_CLASS_NOT_FOUND")
_PACKAGE_HINT = "add its package: --conf spark.jars.packages=GROUP:NAME:VERSION (docs/spark.md)"
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*: ")
#: Up to this many bytes of local input, some two million lines, a fast start saves more time than a fast run.
_SHORT = 1 << 30
#: Up to this many bytes of local input, some ten thousand lines, Spark's planning costs more than its work.
_TINY = 4 << 20
#: Bytes of a trace per byte of Parquet, and of a compressed file.
_PARQUET, _COMPRESSED = 20, 10


@contextmanager
def spark_for(master: str | None, settings: dict[str, str], *, short: bool, tiny: bool) -> Iterator[SparkSession]:
    """A Spark session as a context manager.

    `short`: the job is small, so that startup time matters; `tiny`: so small that planning takes most of the time. At
    the end, its JVM may write an archive of classes, which delays the exit.

    Raises:
        UserError: Spark is missing or failed.
    """
    try:
        import pyspark
    except ImportError:
        from kproxy.io.extras import install_command

        raise UserError(f"kproxy analyze needs Spark: {install_command('spark')}") from None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from kproxy.filters import FilterError
    from kproxy.outputs.stderr import warn
    from kproxy.spark.session import end_java, session
    from kproxy.spark.session.class_archive import ArchiveWriter

    writer = ArchiveWriter()
    try:
        spark = session(master, short=short, tiny=tiny, settings=settings, writer=writer)
        try:
            yield spark
        finally:
            spark.stop()
        writer.finish(end_java, warn)
    except FilterError as error:
        raise UserError(f"filter: {error}") from None
    except BrokenPipeError:  # standard output; py4j wraps errors of its own sockets
        raise
    except ConnectionError:
        more = "raise the limit: --conf spark.driver.memory=4g"
        raise UserError(f"Spark's Java process died, probably out of memory; {more}") from None
    except (PySparkException, Py4JError) as error:
        raise UserError(f"Spark {pyspark.__version__}: {cause_of(error)}") from None
    finally:
        writer.close()


def is_short(paths: Sequence[str]) -> bool:
    """Whether all inputs are local and small."""
    return _total_size(paths) < _SHORT


def is_tiny(paths: Sequence[str]) -> bool:
    """Whether all inputs are local and have a few thousand lines at most."""
    return _total_size(paths) < _TINY


def _total_size(paths: Sequence[str]) -> int:
    """The size of all inputs as traces, in bytes; large if one is not local."""
    found = (each for path in map(Path, paths) for each in (path.rglob("*") if path.is_dir() else (path,)))
    return sum(_size(each) for each in found)


def _size(path: Path) -> int:
    if not path.exists():
        return _SHORT
    factors = {".parquet": _PARQUET, ".gz": _COMPRESSED, ".zst": _COMPRESSED}
    return path.stat().st_size * factors.get(path.suffix, 1)


def cause_of(error: Exception) -> str:
    """The cause in Spark's error message, which may contain stack traces of two languages."""
    inner: object = error
    while (cause := getattr(inner, "_cause", None)) is not None:
        inner = cause
    if _FULL in str(inner):
        return _FULL
    text = str(error)
    _, raised, trace = text.partition("Traceback (most recent call last):\n")
    if raised:  # a Python traceback: the message follows the indented frames and the exception class
        [*_, text] = next((line for line in trace.splitlines() if line[:1].strip()), text).split(": ", 1)
    lines = (line.removeprefix(": ").strip() for line in text.splitlines())
    messages = (line for line in lines if line and not line.startswith("An error occurred while calling"))
    message = _JAVA_CLASS.sub("", next(messages, type(error).__name__))[:400]
    return f"{message}; {_PACKAGE_HINT}" if any(each in message for each in _NO_PACKAGE) else message
