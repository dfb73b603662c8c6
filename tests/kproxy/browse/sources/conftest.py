"""Keep tests away from the caches and control sockets of the user."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of the control sockets; its path is short, because the path of a Unix socket may not be long."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        monkeypatch.setenv("TMPDIR", directory)
        monkeypatch.setenv("XDG_CACHE_HOME", directory)
        yield Path(directory) / "kproxy"
