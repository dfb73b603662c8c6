"""Opens a session of an engine for a command, and turns the engine's errors into one sentence."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kproxy.cli.analyze.engines import EMBEDDED, SPARK, Choice
from kproxy.errors import UserError
from kproxy.io.extras import install_command
from kproxy.spark.session.embedded_engine import EmbeddedEngine, memory_limit, version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A message that only the innermost of Spark's nested errors has.
_FULL = "No space left on device"
#: A message of Sail's memory pool.
_EXHAUSTED = "Failed to allocate additional"
#: gRPC's message when the engine has closed its only connection, possibly seconds before its process ends.
_LOST = "failed to connect to all addresses"
_MORE_MEMORY = f"pass --engine {SPARK}, which needs less, or analyze fewer lines (--since, --where, --sample)"
#: Spark's errors for a format that needs a third-party package.
_NO_PACKAGE = ("DATA_SOURCE_NOT_FOUND", "PLUGIN_CLASS_NOT_FOUND")
_PACKAGE_HINT = "add its package: --conf spark.jars.packages=GROUP:NAME:VERSION (docs/spark.md)"
_GRPC_DETAILS = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*: ")


@contextmanager
def session_for(choice: Choice, settings: dict[str, str], *, short: bool, tiny: bool) -> Iterator[SparkSession]:
    """Open a session of the chosen engine; say which engine it is if the user has not chosen it.

    Raises:
        UserError: The engine is missing or failed.
    """
    from kproxy.filters import FilterError
    from kproxy.outputs.stderr import print_message

    # Started before pyspark is imported: the import takes as long as the start of the engine.
    embedded = EmbeddedEngine(memory_limit()) if choice.engine == EMBEDDED else None
    if choice.why:
        name = f"embedded ({version()})" if embedded else "Spark"
        print_message(
            f"engine: {name}, because {choice.why}; --engine {SPARK if embedded else EMBEDDED} chooses the other one"
        )
    try:
        with (
            _embedded_session(embedded)
            if embedded
            else _spark_session(choice, settings, short=short, tiny=tiny) as session
        ):
            yield session
    except FilterError as error:
        raise UserError(f"filter: {error}") from None


@contextmanager
def _embedded_session(engine: EmbeddedEngine) -> Iterator[SparkSession]:
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        # Kill the engine so that cleanup fails at once, and silence the errors that pyspark's iterators then report.
        engine.kill()
        sys.unraisablehook = lambda _: None
        raise KeyboardInterrupt

    old_handler = signal.signal(signal.SIGINT, interrupt)
    try:
        from kproxy.spark.session.errors import ENGINE_ERRORS

        try:
            yield engine.connect()
        except ENGINE_ERRORS as error:
            if interrupted:
                raise KeyboardInterrupt from None
            raise UserError(embedded_error(engine, error)) from None
    finally:
        signal.signal(signal.SIGINT, old_handler)
        engine.close()


def embedded_error(engine: EmbeddedEngine, error: Exception) -> str:
    """Return a sentence about an error of the embedded engine."""
    is_connection_lost = _LOST in str(error)
    if engine.has_died or (is_connection_lost and engine.ends(within=5)):
        return f"the embedded engine died, probably out of memory; {_MORE_MEMORY}"
    if is_connection_lost:
        return f"the embedded engine has closed its connection; {_MORE_MEMORY}"
    return f"{version()}: {cause_of(error)}"


@contextmanager
def _spark_session(choice: Choice, settings: dict[str, str], *, short: bool, tiny: bool) -> Iterator[SparkSession]:
    """Open a Spark session.

    With `short`, the job is small, so that startup time matters; with `tiny`, it is so small that planning takes most
    of the time. At the end, the JVM may write an archive of classes, which delays the exit.
    """
    remote = (choice.master or os.environ.get("SPARK_REMOTE", "")).startswith("sc://")
    if find_spec("pyspark") is None or (find_spec("py4j") is None and not remote):
        raise UserError(f"this needs Spark: {install_command('spark')}")
    import pyspark

    from kproxy.outputs.stderr import warn
    from kproxy.spark.session import session, stop_java
    from kproxy.spark.session.class_archive import ArchiveWriter
    from kproxy.spark.session.errors import ENGINE_ERRORS

    writer = ArchiveWriter()
    try:
        spark = session(choice.master, short=short, tiny=tiny, settings=settings, writer=writer)
        try:
            yield spark
        finally:
            spark.stop()
        writer.finish(stop_java, warn)
    except BrokenPipeError:  # standard output; py4j wraps errors of its own sockets
        raise
    except ConnectionError:
        advice = "raise the limit: --conf spark.driver.memory=4g"
        raise UserError(f"Spark's Java process died, probably out of memory; {advice}") from None
    except ENGINE_ERRORS as error:
        raise UserError(f"Spark {pyspark.__version__}: {cause_of(error)}") from None
    finally:
        writer.close()


def cause_of(error: Exception) -> str:
    """Return the cause in an engine's error message, which may contain stack traces of two languages."""
    inner: object = error
    while (cause := getattr(inner, "_cause", None)) is not None:
        inner = cause
    if _FULL in str(inner):
        return _FULL
    if _EXHAUSTED in str(error):
        return f"the embedded engine may use half of the memory ({memory_limit() / (1 << 30):.1f} GB); {_MORE_MEMORY}"
    text = str(error)
    if (details := _GRPC_DETAILS.search(text)) is not None:
        text = details[1]
    _, separator, trace = text.partition("Traceback (most recent call last):\n")
    if separator:  # a Python traceback: the message follows the indented frames and the exception class
        [*_, text] = next((line for line in trace.splitlines() if line[:1].strip()), text).split(": ", 1)
    lines = (line.removeprefix(": ").strip() for line in text.splitlines())
    messages = (line for line in lines if line and not line.startswith("An error occurred while calling"))
    message = _JAVA_CLASS.sub("", next(messages, type(error).__name__))[:400]
    return f"{message}; {_PACKAGE_HINT}" if any(code in message for code in _NO_PACKAGE) else message
