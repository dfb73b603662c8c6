"""A small disk for traces, which a fault can fill or unmount."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

#: Large enough for the trace of a whole story, so that a writer that has fallen behind does not fill it again.
_BYTES = 64 * 1024 * 1024


class Disk:
    """A separate file system; skips the test if it cannot be mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        if os.geteuid() != 0:
            pytest.skip("needs root, to mount a small disk")
        process = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={_BYTES}", "none", path], capture_output=True, text=True
        )
        if process.returncode:
            pytest.skip(f"cannot mount here: {process.stderr.strip()}")

    def fill(self) -> None:
        """Fill the disk to the last byte."""
        with (self.path / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(65536)):
                pass

    def empty(self) -> None:
        """Free the space again."""
        (self.path / "filler").unlink()

    def unmount(self) -> None:
        """Unmount the disk even if files on it are open; this leaves an empty directory."""
        subprocess.run(["umount", "--lazy", self.path], check=False, capture_output=True)
