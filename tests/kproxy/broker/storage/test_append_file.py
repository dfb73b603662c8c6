"""An append-only file on a disk that responds at once: newer Pythons then return a future that is already done."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kproxy.broker.storage.append_file import AppendOnlyFile


class DoneFuture(asyncio.Future[object]):
    """A completed future; fails callers that poll `done` forever and so block the event loop."""

    polls = 0

    def done(self) -> bool:
        self.polls += 1
        assert self.polls < 100, "the event loop is blocked"
        return super().done()


@pytest.fixture(autouse=True)
async def _run_thread_work_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    def run_at_once(_executor: object, work: Callable[..., object], *args: object) -> DoneFuture:
        future = DoneFuture(loop=loop)
        try:
            future.set_result(work(*args))
        except OSError as error:
            future.set_exception(error)
        return future

    monkeypatch.setattr(loop, "run_in_executor", run_at_once)


async def test_synced_writes_reach_the_file(tmp_path: Path) -> None:
    file = AppendOnlyFile(tmp_path / "log")
    for data in (b"one", b"two"):
        file.append(data)
        await file.wait_until_synced()
    file.close()
    assert file.path.read_bytes() == b"onetwo"


async def test_rejects_writes_after_a_failed_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = AppendOnlyFile(tmp_path / "log")
    file.append(b"one")

    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            await file.wait_until_synced()
    with pytest.raises(OSError, match="Input/output"):
        await file.wait_until_synced()
    with pytest.raises(OSError, match="Input/output"):
        file.append(b"two")
    file.close()
