"""Keep the control sockets of tests separate from those of the user."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.control import paths


@pytest.fixture(scope="module", autouse=True)
def sockets() -> Iterator[Path]:
    """Return a directory for this module's control sockets; its path is short because Unix socket paths are limited."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", directory)
        patch.setenv("TMPDIR", directory)
        patch.setattr(paths, "_GREETING_S", 20)  # an inspector may start late on a busy machine
        yield Path(directory) / "kproxy"
