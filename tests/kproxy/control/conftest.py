"""Control sockets of tests are apart from those of whoever runs the tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.control import paths


@pytest.fixture(scope="module", autouse=True)
def sockets() -> Iterator[Path]:
    """Where proxies of this module have their sockets: a short path, since that of a Unix socket may not be long."""
    with tempfile.TemporaryDirectory(prefix="k", dir="/tmp") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", directory)
        patch.setenv("TMPDIR", directory)
        patch.setattr(paths, "_GREETING_S", 20)  # an inspector on a busy machine begins when it has the time
        yield Path(directory) / "kproxy"
