"""A small disk for traces, which a fault can fill or take away."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

#: Room for the trace of a whole story: a writer that is far behind must not fill it again once there is some.
_BYTES = 64 * 1024 * 1024


class Disk:
    """A file system of its own; skips the test where it cannot be mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        if os.geteuid() != 0:
            pytest.skip("needs root, to mount a small disk")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={_BYTES}", "none", path], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")

    def fill(self) -> None:
        """Take every byte that is left."""
        with (self.path / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(65536)):
                pass

    def empty(self) -> None:
        """Free these bytes again."""
        (self.path / "filler").unlink()

    def unmount(self) -> None:
        """Take it away, also from those who have files open on it; the directory below is empty."""
        subprocess.run(["umount", "--lazy", self.path], check=False, capture_output=True)
