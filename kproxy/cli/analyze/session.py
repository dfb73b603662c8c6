"""A session while a command lasts; what goes wrong in it ends the command with one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What no other sentence of Spark's says, but the innermost of its causes.
_FULL = "No space left on device"
#: Spark's words for a format that is a package of somebody else's.
_NO_PACKAGE = ("DATA_SOURCE_NOT_FOUND", "PLUGIN_CLASS_NOT_FOUND")
_GIVE_PACKAGE = "add its package: --conf spark.jars.packages=GROUP:NAME:VERSION (docs/spark.md)"
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*: ")
#: Up to so many bytes of local input, starting quickly saves more than running fast.
_SHORT = 96 << 20
#: Bytes of a trace that a byte of Parquet stands for.
_PARQUET = 20


@contextmanager
def spark_for(master: str | None, settings: dict[str, str], *, short: bool) -> Iterator[SparkSession]:
    """A session while it lasts, `short` if its work is small; what goes wrong in it as one sentence.

    Its JVM may write an archive of classes at the end, for which the user waits.
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
        spark = session(master, short=short, settings=settings, writer=writer)
        try:
            yield spark
        finally:
            spark.stop()
        writer.finish(end_java, warn)
    except FilterError as error:
        raise UserError(f"filter: {error}") from None
    except BrokenPipeError:  # of our output: those of its own sockets py4j wraps
        raise
    except ConnectionError:
        more = "raise the limit: --conf spark.driver.memory=4g"
        raise UserError(f"Spark's Java process died, probably out of memory; {more}") from None
    except (PySparkException, Py4JError) as error:
        raise UserError(f"Spark {pyspark.__version__}: {_cause(error)}") from None
    finally:
        writer.close()


def is_short(paths: Sequence[str]) -> bool:
    """Whether all of it is here, and little."""
    found = (each for path in map(Path, paths) for each in (path.rglob("*") if path.is_dir() else (path,)))
    return sum(_size(each) for each in found) < _SHORT


def _size(path: Path) -> int:
    if not path.exists():
        return _SHORT
    return path.stat().st_size * (_PARQUET if path.suffix == ".parquet" else 1)


def _cause(error: Exception) -> str:
    """Of what Spark says, which may go on with the stacks of two languages, the cause."""
    inner: object = error
    while (deeper := getattr(inner, "_cause", None)) is not None:
        inner = deeper
    if _FULL in str(inner):
        return _FULL
    text = str(error)
    _, raised, trace = text.partition("Traceback (most recent call last):\n")
    if raised:  # by Python: its sentence stands behind the frames, which are indented, and behind its class
        [*_, text] = next((line for line in trace.splitlines() if line[:1].strip()), text).split(": ", 1)
    lines = (line.removeprefix(": ").strip() for line in text.splitlines())
    told = (line for line in lines if line and not line.startswith("An error occurred while calling"))
    said = _JAVA_CLASS.sub("", next(told, type(error).__name__))[:400]
    return f"{said}; {_GIVE_PACKAGE}" if any(each in said for each in _NO_PACKAGE) else said
