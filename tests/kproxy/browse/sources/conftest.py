"""Keep tests away from the user's caches and control sockets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the directory of the control sockets; it is short because the length of a Unix socket path is limited."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        monkeypatch.setenv("TMPDIR", directory)
        monkeypatch.setenv("XDG_CACHE_HOME", directory)
        yield Path(directory) / "kproxy"
