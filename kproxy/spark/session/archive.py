"""An archive of the classes that Spark loads (AppCDS): the first run writes it, and it halves how others start."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from hashlib import sha256
from pathlib import Path

_ABANDONED_S = 3600


def archive_options(folder: Path, java: str, key: str) -> str:
    """The options that make a JVM use its archive in `folder`, or write it when it ends if there is none.

    `java` is the command, `key` names what the archive is made of. Java does without one that does not fit.

    Source: JEP 310, JEP 350.
    """
    path = folder / f"classes-{sha256(key.encode()).hexdigest()[:16]}"
    base = path.with_name(f"{path.name}-base")
    if not base.exists() and not _made_base(java, base):
        return ""
    if not path.exists():
        _adopt(path)
    if path.exists():
        return f"-XX:SharedArchiveFile={base}:{path}"
    return f"-XX:SharedArchiveFile={base} -XX:ArchiveClassesAtExit={path}.{os.getpid()}"


def _made_base(java: str, base: Path) -> bool:
    """Make the archive of Java's own classes, which the other one is on top of and a small runtime lacks (a second)."""
    written = base.with_name(f"{base.name}.{os.getpid()}")
    command = [java, "-Xshare:dump", f"-XX:SharedArchiveFile={written}", "-Xlog:disable"]
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=120)  # noqa: S603  # the user's own Java
        written.rename(base)
    except (OSError, subprocess.SubprocessError):
        written.unlink(missing_ok=True)
        return False
    return True


def _adopt(path: Path) -> None:
    """Give its name to an archive that is whole; what a killed JVM left goes."""
    for written in path.parent.glob(f"{path.name}.*"):
        with contextlib.suppress(OSError), written.open("rb") as file:
            if file.read(4).strip(b"\0"):  # the head is written last
                written.rename(path)
            elif time.time() - written.stat().st_mtime > _ABANDONED_S:
                written.unlink()
