"""Files and directories that only their owner can read: records, and credentials in a form that allows a login."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def make_private(directory: Path) -> None:
    """Create a directory for its owner only. An existing one is left as it is: others may share it on purpose.

    Raises:
        OSError: It cannot be created.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def restrict(directory: Path) -> None:
    """Remove others' access to one of kproxy's own directories, which older versions left to the umask."""
    with suppress(FileNotFoundError, PermissionError):  # not created yet, or owned by another user
        directory.chmod(0o700)


def create_private(path: Path) -> BinaryIO:
    """Open a file for writing, and truncate it; a new file is accessible to its owner only."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")
