"""An archive of Spark's classes (AppCDS), which halves the start time of Spark.

It is about 190 MB and takes 20 s of CPU to write. The second run of a command writes it, so a single run, or a run
without a lasting cache, does not pay for it. Only one run at a time writes an archive, and it waits for Java, so no
Java process stays behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import IO, Final

#: How many of the most recently used archives to keep: there is one for each Java and Spark installation.
_ARCHIVES_KEPT: Final = 2
_NAME = re.compile(r"classes-[0-9a-f]{16}")
#: If this variable is "no", kproxy uses an archive but does not write one.
VARIABLE: Final = "KPROXY_SPARK_ARCHIVE"


def archive_options(folder: Path, key: str) -> str:
    """Return the options that make a JVM use its archive in `folder`; empty if there is none.

    `key` identifies the archive's contents. Java ignores an archive that does not match.

    Source: JEP 310, JEP 350.
    """
    path, base = _paths(folder, key)
    if not (path.exists() and base.exists()):
        return ""
    for file in (path, base):
        with contextlib.suppress(OSError):  # may have been deleted
            os.utime(file)  # mark as used
    return f"-XX:SharedArchiveFile={base}:{path}"


class ArchiveWriter:
    """Writes the archive when the JVM ends, if this run is the one to do so. Must be closed at the end of the run."""

    def __init__(self) -> None:
        self._lock: IO[bytes] | None = None
        self._path = self._part = Path()
        self._java: subprocess.Popen[bytes] | None = None

    def options(self, folder: Path, java: str, key: str) -> str:
        """Return `archive_options`, or options that make the JVM write the archive. `java` is the command."""
        if os.environ.get(VARIABLE) == "no" or not self._try_lock(folder):
            return archive_options(folder, key)
        self._path, base = _paths(folder, key)
        marker = self._path.with_name(f"{self._path.name}.wanted")
        _remove_old_archives(folder, self._path.name)
        options = archive_options(folder, key)
        if options or not marker.exists() or not _create_base(java, base):
            marker.touch()
            self._unlock()
            return options
        self._part = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        return f"-XX:SharedArchiveFile={base} -XX:ArchiveClassesAtExit={self._part}"

    def record_start(self, java: subprocess.Popen[bytes]) -> None:
        """Record the JVM that was started with the options."""
        self._java = java

    def finish(self, stop: Callable[[], None], notify: Callable[[str], None]) -> None:
        """Wait until the JVM has ended and the archive exists, if this run writes it. Ctrl-C stops waiting.

        `stop` ends the JVM, `notify` tells the user why this takes time.
        """
        if self._lock is None or self._java is None:
            return
        notify(f"writing an archive of Spark's classes to {self._path.parent}, so that later runs start twice as fast "
               "(Ctrl-C skips it)")  # fmt: skip
        with contextlib.suppress(KeyboardInterrupt):
            stop()
            if self._java.wait() == 0 and _is_complete(self._part):
                self._part.rename(self._path)
        self.close()

    def close(self) -> None:
        """Kill a JVM that is still writing, and remove the incomplete archive."""
        if self._lock is None:
            return
        if self._java is not None and self._java.poll() is None:
            self._java.kill()
            self._java.wait()
        self._part.unlink(missing_ok=True)
        self._unlock()

    def _try_lock(self, folder: Path) -> bool:
        """Prevent other runs from writing an archive until `_unlock`; return False if one is already writing."""
        lock = (folder / "lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._lock = lock
        return True

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _paths(folder: Path, key: str) -> tuple[Path, Path]:
    """Return the paths of the archive, and of the base archive with Java's own classes."""
    name = f"classes-{sha256(key.encode()).hexdigest()[:16]}"
    return folder / name, folder / f"{name}-base"


def _create_base(java: str, base: Path) -> bool:
    """Create the archive of Java's own classes, which a small runtime lacks; return whether it exists.

    This takes a second.
    """
    if base.exists():
        return True
    part_path = base.with_name(f"{base.name}.{os.getpid()}")
    command = [java, "-Xshare:dump", f"-XX:SharedArchiveFile={part_path}", "-Xlog:disable"]
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=120)  # noqa: S603  # the user's own Java
        part_path.rename(base)
    except (OSError, subprocess.SubprocessError):
        part_path.unlink(missing_ok=True)
        return False
    return True


def _is_complete(path: Path) -> bool:
    """Whether Java has completed an archive: its header is written last."""
    try:
        with path.open("rb") as file:
            return bool(file.read(4).strip(b"\0"))
    except OSError:
        return False


def _remove_old_archives(folder: Path, current: str) -> None:
    """Remove leftovers from killed runs, and the least recently used archives other than `current`."""
    files = [path for path in folder.glob("classes-*") if _NAME.match(path.name)]
    used_at = {file.name: file.stat().st_mtime for file in files if _NAME.fullmatch(file.name)}
    older = sorted((name for name in used_at if name != current), key=used_at.__getitem__, reverse=True)
    kept_names = {current, *older[: _ARCHIVES_KEPT - 1]}
    for file in files:
        name, suffix = file.name[:24], file.name[24:]
        if name not in kept_names or suffix not in ("", "-base", ".wanted"):
            file.unlink(missing_ok=True)
