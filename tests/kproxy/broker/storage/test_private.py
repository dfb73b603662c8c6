"""Files under the data directory are for their owner only, whatever the umask says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kproxy.broker.data_asked import batch, produce
from tests.kproxy.broker.socket_client import asked


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A directory that others may list, as a user or an older version made it."""
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[Path, int]:
    """The mode of a directory and of everything in it."""
    return {path: path.stat().st_mode & 0o777 for path in (directory, *directory.rglob("*"))}


async def test_what_it_creates_is_private(tmp_path: Path) -> None:
    async with asked(data=tmp_path / "data", topics={"t": 1}) as ask:
        await produce(ask, batch())
        found = modes(tmp_path / "data")
    assert len(found) > 5
    assert found == {path: 0o700 if path.is_dir() else 0o600 for path in found}


async def test_what_an_older_version_left_to_the_umask_is_closed(used: Path) -> None:
    async with asked(data=used, topics={"t": 1}) as ask:
        await produce(ask, batch())
    for path in modes(used):
        path.chmod(0o755 if path.is_dir() else 0o644)
    async with asked(data=used, topics={"t": 1}):
        found = modes(used)
    assert found[used] == 0o755  # the user's own directory stays as it is
    assert (found[used / "logs"], found[used / "journal.jsonl"], found[used / ".lock"]) == (0o700, 0o600, 0o600)
