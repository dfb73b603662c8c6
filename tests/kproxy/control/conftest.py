"""Keep the control sockets of tests separate from the sockets of the user."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.control import paths


@pytest.fixture(scope="module", autouse=True)
def sockets() -> Iterator[Path]:
    """A directory for the control sockets of this module. Its path is short, since that of a Unix socket is limited."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", directory)
        patch.setenv("TMPDIR", directory)
        patch.setattr(paths, "_GREETING_S", 20)  # an inspector may start late on a busy machine
        yield Path(directory) / "kproxy"
