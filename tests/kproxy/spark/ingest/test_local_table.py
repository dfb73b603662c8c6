"""Local tables without an engine support concurrent readers, killed runs and compaction."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from kproxy.errors import UserError
from kproxy.spark.ingest import compaction, local_table
from kproxy.spark.ingest import convert as converting
from kproxy.spark.ingest.compaction import compact
from kproxy.spark.ingest.convert import batches, convert
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.inputs import find_files
from tests.kproxy.spark.files import trace_bytes, write
from tests.kproxy.spark.sample_lines import request


class Killed(BaseException):
    """An exception that stands for SIGKILL: nothing is cleaned up."""


def write_trace(folder: Path, number: int) -> Path:
    """Write a trace of 3 lines in a separate hour, whose connection id contains `number`."""
    lines = (request(at=number * 3600 + index, connection_id=f"n-1-{number}", offset=index) for index in range(3))
    return write(folder / f"{number}.jsonl", trace_bytes(*lines) + b"no line\n")


def convert_new_files(traces: Path, table: Path) -> int:
    """Convert new files; return the number of lines."""
    added = convert(None, find_files(None, [str(traces)]), str(table), CaptureOptions())
    return sum(batch.lines for batch in added)


def count_visible_lines(table: Path) -> dict[str, int]:
    """Return the number of lines per connection that a separate Parquet reader sees."""
    rows = ds.dataset(table, format="parquet", partitioning="hive").to_table(columns=["connection_id"])
    connection_ids = [connection_id for connection_id in rows["connection_id"].to_pylist() if connection_id is not None]
    return {connection_id: connection_ids.count(connection_id) for connection_id in sorted(set(connection_ids))}


def test_other_readers_see_only_complete_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces, table = tmp_path / "in", tmp_path / "table"
    write_trace(traces, 0)
    assert convert_new_files(traces, table) == 3
    write_trace(traces, 1)
    all_lines = {"n-1-0": 3, "n-1-1": 3}

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(local_table, "write_record", kill)
        with pytest.raises(Killed):
            convert_new_files(traces, table)
    assert (count_visible_lines(table), len(batches(None, str(table)) or ())) == ({"n-1-0": 3}, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", _rename_or_kill(table / "batch=2"))
        with pytest.raises(Killed):
            convert_new_files(traces, table)
    assert count_visible_lines(table) == {"n-1-0": 3}
    assert len(batches(None, str(table)) or ()) == 2  # the batch is already part of the table
    assert convert_new_files(traces, table) == 0
    assert count_visible_lines(table) == all_lines
    assert sorted(path.name for path in table.iterdir()) == ["_files", "_lock", "batch=1", "batch=2"]


def _rename_or_kill(forbidden: Path) -> object:
    rename = Path.rename

    def rename_or_kill(self: Path, target: Path) -> Path:
        if target == forbidden:
            raise Killed
        return rename(self, target)

    return rename_or_kill


@pytest.fixture
def five_batches(tmp_path: Path) -> Path:
    """Return a table of five batches, the last two of which cover the same hour."""
    traces, table = tmp_path / "in", tmp_path / "table"
    for number in range(4):
        write_trace(traces, number)
        convert_new_files(traces, table)
    write(traces / "more.jsonl", trace_bytes(request(at=3 * 3600 + 9, connection_id="n-1-3", offset=9)))
    convert_new_files(traces, table)
    return table


def test_compaction_keeps_lines_and_the_list_of_converted_files(five_batches: Path, tmp_path: Path) -> None:
    lines_before, files = (
        count_visible_lines(five_batches),
        {uri for batch in batches(None, str(five_batches)) or () for uri in batch.files},
    )
    assert [batch.number for batch in compact(str(five_batches))] == [1, 2, 3, 4, 5]
    assert count_visible_lines(five_batches) == lines_before == {"n-1-0": 3, "n-1-1": 3, "n-1-2": 3, "n-1-3": 4}
    [batch] = batches(None, str(five_batches)) or ()
    assert (batch.number, batch.lines, batch.corrupt, batch.files.keys()) == (6, 13, 4, files)
    assert len(list(five_batches.glob("batch=6/date=2026-11-21/hour=08/*.parquet"))) == 1
    assert sorted(path.name for path in (five_batches / "_files").iterdir()) == ["batch=6"]
    assert convert_new_files(tmp_path / "in", five_batches) == 0
    assert compact(str(five_batches)) == []
    write(tmp_path / "in" / "last.jsonl", trace_bytes(request()))
    assert convert_new_files(tmp_path / "in", five_batches) == 1
    assert [batch.number for batch in batches(None, str(five_batches)) or ()] == [6, 7]


@pytest.mark.parametrize("step", ["write_record", "finish"])
def test_killed_compaction_keeps_every_line(
    five_batches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    lines_before = count_visible_lines(five_batches)

    def kill(*_: object) -> None:
        raise Killed

    original_finish = local_table.finish
    calls = iter([original_finish, kill] if step == "finish" else [original_finish])
    with monkeypatch.context() as patch:
        patch.setattr(local_table, "finish", lambda folder: next(calls)(folder))
        if step != "finish":
            patch.setattr(local_table, step, kill)
        with pytest.raises(Killed):
            compact(str(five_batches))
    assert count_visible_lines(five_batches) == lines_before
    assert sum(batch.lines for batch in batches(None, str(five_batches)) or ()) == 13
    assert convert_new_files(tmp_path / "in", five_batches) == 0  # this completes the compaction
    assert count_visible_lines(five_batches) == lines_before
    assert len(batches(None, str(five_batches)) or ()) == (1 if step == "finish" else 5)


def test_compaction_skips_large_batches_and_keeps_old_columns(
    five_batches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [path] = (five_batches / "batch=5").rglob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["request_offset"]), path, store_schema=False)
    lines_before = count_visible_lines(five_batches)
    compact(str(five_batches))
    assert count_visible_lines(five_batches) == lines_before
    with monkeypatch.context() as patch:
        patch.setattr(compaction, "_SMALL", 1)
        assert compact(str(five_batches)) == []


def test_compaction_rejects_a_directory_without_a_table(tmp_path: Path) -> None:
    for table in (tmp_path, "s3a://bucket/x"):
        with pytest.raises(UserError, match="is not a table of traces in a local directory"):
            compact(str(table))


def test_pool_writes_the_same_table_as_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        write_trace(tmp_path / "in", number)
    assert convert_new_files(tmp_path / "in", tmp_path / "one") == 18
    for name in ("_TASK_BYTES", "_MIN_TASK_BYTES"):
        monkeypatch.setattr(f"kproxy.spark.ingest.local_tables.{name}", 700)
    [batch] = convert(None, find_files(None, [str(tmp_path / "in")]), str(tmp_path / "pool"), CaptureOptions())
    assert (batch.lines, batch.corrupt, len(batch.corrupt_files)) == (18, 6, 6)
    assert count_visible_lines(tmp_path / "pool") == count_visible_lines(tmp_path / "one")
    name_prefixes = {path.name[:10] for path in (tmp_path / "pool").rglob("*.parquet")}
    assert len(name_prefixes) > 6


def test_local_paths_and_globs_need_no_engine(tmp_path: Path) -> None:
    write_trace(tmp_path / "in", 0), write_trace(tmp_path / "in", 1)
    files = find_files(None, [f"{tmp_path}/in/*.jsonl", f"file:{tmp_path}/in/0.jsonl"])
    assert [Path(file.path).name for file in files] == ["0.jsonl", "1.jsonl"]
    for path, message in ((f"{tmp_path}/*.x", "no such file or directory"), ("s3a://b/x", "pass --engine spark")):
        with pytest.raises(UserError, match=message):
            find_files(None, [path])


def test_table_copied_during_a_write_contains_only_complete_batches(tmp_path: Path) -> None:
    write_trace(tmp_path / "in", 0)
    convert_new_files(tmp_path / "in", tmp_path / "table")
    unfinished_batch = tmp_path / "table" / "_new" / "0"
    shutil.copytree(tmp_path / "table" / "batch=1", unfinished_batch)
    assert count_visible_lines(tmp_path / "table") == {"n-1-0": 3}
    assert converting.batches(None, str(tmp_path / "table"))
