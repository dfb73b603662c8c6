"""Only their owner can access files in the data directory, whatever the umask is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kproxy.broker.data_requests import batch, produce
from tests.kproxy.broker.socket_client import broker_client


@pytest.fixture
def used_directory(tmp_path: Path) -> Path:
    """A directory that others may list, as created by a user or an older version."""
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    previous = os.umask(0)
    yield
    os.umask(previous)


def modes(directory: Path) -> dict[Path, int]:
    """Return the mode of a directory and of everything in it."""
    return {path: path.stat().st_mode & 0o777 for path in (directory, *directory.rglob("*"))}


async def test_created_files_are_private(tmp_path: Path) -> None:
    async with broker_client(data=tmp_path / "data", topics={"t": 1}) as client:
        await produce(client, batch())
        file_modes = modes(tmp_path / "data")
    assert len(file_modes) > 5
    assert file_modes == {path: 0o700 if path.is_dir() else 0o600 for path in file_modes}


async def test_files_of_older_versions_are_made_private(used_directory: Path) -> None:
    async with broker_client(data=used_directory, topics={"t": 1}) as client:
        await produce(client, batch())
    for path in modes(used_directory):
        path.chmod(0o755 if path.is_dir() else 0o644)
    async with broker_client(data=used_directory, topics={"t": 1}):
        file_modes = modes(used_directory)
    assert file_modes[used_directory] == 0o755  # the user's own directory stays as it is
    assert (
        file_modes[used_directory / "logs"],
        file_modes[used_directory / "journal.jsonl"],
        file_modes[used_directory / ".lock"],
    ) == (0o700, 0o600, 0o600)
