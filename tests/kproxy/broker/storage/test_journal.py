from __future__ import annotations

import os
from pathlib import Path

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.storage import DataDirectoryError, FileJournal
from kproxy.broker.storage import journal as journal_module


def entries(directory: Path, table: str = "t") -> dict[str, object]:
    journal = FileJournal(directory, fsync=False)
    try:
        return dict(journal.entries(table))
    finally:
        journal.close()


def test_last_value_of_a_key_survives_a_restart(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "new", fsync=False)
    journal.put("t", "a", {"n": 1})
    journal.put("t", "b", {"n": 2, "deep": [{"x": None}]})
    journal.put("u", "a", {"n": 3})
    journal.put("t", "a", {"n": 4})
    journal.put("t", "c", {})
    journal.put("t", "c", None)
    assert dict(journal.entries("t")) == {"a": {"n": 4}, "b": {"n": 2, "deep": [{"x": None}]}}
    journal.close()
    assert entries(tmp_path / "new") == {"a": {"n": 4}, "b": {"n": 2, "deep": [{"x": None}]}}
    assert entries(tmp_path / "new", "u") == {"a": {"n": 3}}


def test_put_writes_to_the_file_at_once(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path, fsync=False)
    journal.put("t", "a", {})
    assert (tmp_path / "journal.jsonl").read_bytes() == b'["t","a",{}]\n'
    journal.close()


def test_drops_a_torn_last_line(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b'["t","a",{"n":1}]\n["t","b",{"n"')
    assert entries(tmp_path) == {"a": {"n": 1}}
    assert (tmp_path / "journal.jsonl").read_bytes() == b'["t","a",{"n":1}]\n'


@pytest.mark.parametrize("line", [b"{}", b"\xff\xfe", b'["t","a"]', b'["t",1,{}]', b""])
def test_reports_any_other_corrupt_line(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b'["t","a",{}]\n' + line + b'\n["t","b",{}]\n')
    with pytest.raises(DataDirectoryError, match="line 2 is not an entry"):
        FileJournal(tmp_path, fsync=False)
    assert b'"b"' in (tmp_path / "journal.jsonl").read_bytes()


def test_only_one_process_can_open_the_directory(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path, fsync=False)
    with pytest.raises(DataDirectoryError, match="in use by another process"):
        FileJournal(tmp_path, fsync=False)
    journal.close()
    FileJournal(tmp_path, fsync=False).close()


def test_rejects_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirectoryError, match="File exists"):
        FileJournal(tmp_path / "file", fsync=False)


def test_journal_is_compacted_when_it_is_mostly_obsolete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_MAX_OBSOLETE_BYTES", 10_000)
    journal = FileJournal(tmp_path, fsync=False)
    for number in range(10_000):
        journal.put("t", f"k{number % 7}", {"n": number})
    assert (tmp_path / "journal.jsonl").stat().st_size < 11_000
    journal.close()
    assert entries(tmp_path) == {f"k{number % 7}": {"n": number} for number in range(9993, 10_000)}


@pytest.mark.parametrize("fsync", [False, True])
async def test_full_disk_is_an_error_until_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool
) -> None:
    journal = FileJournal(tmp_path, fsync=fsync)
    journal.put("t", "a", {})
    await journal.wait_until_synced()
    write = os.write

    def write_part(fd: int, data: memoryview) -> int:
        monkeypatch.setattr(os, "write", fail)
        return write(fd, data[:3])

    def fail(fd: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", write_part)
    journal.put("t", "b", {})
    with pytest.raises(ApiError) as caught:
        await journal.wait_until_synced()
    assert caught.value.error is Error.KAFKA_STORAGE_ERROR
    monkeypatch.setattr(os, "write", write)
    journal.put("t", "c", {})
    await journal.wait_until_synced()
    journal.close()
    assert list(entries(tmp_path)) == ["a", "b", "c"]


async def test_failed_fsync_is_permanent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = FileJournal(tmp_path, fsync=True)

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    journal.put("t", "a", {})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(ApiError):
            await journal.wait_until_synced()
    with pytest.raises(ApiError) as caught:
        await journal.wait_until_synced()
    assert caught.value.error is Error.KAFKA_STORAGE_ERROR
    journal.close()
