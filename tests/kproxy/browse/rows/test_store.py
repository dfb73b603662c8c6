"""Line stores: growing files, spools of limited size, and merged stores."""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.browse.rows import store as stores
from kproxy.browse.rows.merged_store import MergedStore
from kproxy.browse.rows.store import FileStore, LineReader, Spool, Store
from tests.kproxy.browse.lines import line

LINES = st.lists(st.binary(min_size=1, max_size=40).map(lambda raw: raw.replace(b"\n", b"")).filter(bool), max_size=30)


def take_lines(store: Store) -> list[bytes]:
    return [raw for _, raw in store.take_new_lines()]


def open_store(path: Path) -> FileStore:
    return FileStore(os.open(path, os.O_RDONLY))


@pytest.fixture
def spool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Spool]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spool = Spool()
    yield spool
    spool.close()


@given(lines=LINES, cuts=st.lists(st.integers(1, 200), max_size=10), chunk=st.integers(1, 64))
def test_all_lines_of_a_file_are_read_however_it_grows(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cuts: list[int], chunk: int
) -> None:
    content = b"".join(raw + b"\n" for raw in lines)
    path = tmp_path_factory.mktemp("grown") / "trace.jsonl"
    path.write_bytes(b"")
    store = open_store(path)
    read_lines = []
    cut_offsets = sorted({min(cut, len(content)) for cut in cuts} | {len(content)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "_CHUNK", chunk)
        for start, end in pairwise([0, *cut_offsets]):
            with path.open("ab") as file:
                file.write(content[start:end])
            read_lines += list(store.take_new_lines())
    assert [raw for _, raw in read_lines] == lines
    assert [store.read(offset, len(raw)) for offset, raw in read_lines] == lines
    assert store.progress == (len(content), len(content))
    store.close()


def test_last_line_without_newline_counts_once_the_file_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"one\ntwo")
    store = open_store(path)
    assert take_lines(store) == [b"one"]
    store.end()
    assert list(store.take_new_lines()) == [(4, b"two")]
    assert take_lines(store) == []
    store.close()


def test_overlong_line_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LineReader, "LONGEST", 1 << 17)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"x" * (1 << 20) + b"\nafter\n")
    store = open_store(path)
    raw_lines = take_lines(store)
    assert raw_lines[-1] == b"after"
    assert all(len(raw) <= 1 << 18 for raw in raw_lines)
    store.close()


@given(lines=LINES, cuts=st.lists(st.integers(1, 200), max_size=10), segment=st.integers(1, 100))
def test_spool_returns_its_lines_however_they_were_appended(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cuts: list[int], segment: int
) -> None:
    content = b"".join(raw + b"\n" for raw in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp()))
        spool = Spool(segment=segment)
        read_lines = []
        for start, end in pairwise([0, *sorted({min(cut, len(content)) for cut in cuts} | {len(content)})]):
            spool.append(content[start:end])
            read_lines += list(spool.take_new_lines())
        assert [raw for _, raw in read_lines] == lines
        assert [spool.read(offset, len(raw)) for offset, raw in read_lines] == lines
        spool.close()


def test_spool_returns_lines_longer_than_one_read(spool: Spool) -> None:
    lines = [b"a" * 1000, b"b" * 700_000, b"c"]
    spool.append(b"\n".join(lines) + b"\n")
    assert take_lines(spool) == lines


def test_spool_drops_the_oldest_lines_beyond_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spool = Spool(keep=1000, segment=250)
    offsets = []
    for number in range(100):
        spool.append(b"%099d\n" % number)
        offsets += [offset for offset, _ in spool.take_new_lines()]
    assert len(offsets) == 100
    assert spool.read(0, 99) == b""
    kept = [spool.read(offset, 99) for offset in offsets if offset >= spool.first]
    assert kept == [b"%099d" % number for number in range(100 - len(kept), 100)]
    assert 700 <= 100 * len(kept) <= 1000
    assert spool.first == offsets[-len(kept)]
    spool.close()


def test_spool_has_no_visible_file_and_ignores_an_incomplete_last_line(spool: Spool, tmp_path: Path) -> None:
    last = line(1).rstrip(b"\n")
    spool.append(b"one\n" + last)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert take_lines(spool) == [b"one"]
    spool.end()
    assert take_lines(spool) == [last]
    spool.append(last[:-9])
    spool.end()
    assert take_lines(spool) == []


def filled_store(path: Path, *lines: bytes) -> FileStore:
    path.write_bytes(b"".join(lines))
    return open_store(path)


def test_stores_are_merged_by_time_within_each_hour(tmp_path: Path) -> None:
    merged = MergedStore()
    first_lines, second_lines, earlier_hour = (
        [line(second) for second in seconds] for seconds in ((3, 5, 9), (1, 4, 20), (2, 3))
    )
    merged.add(filled_store(tmp_path / "a", *first_lines), "hour=02")
    merged.add(filled_store(tmp_path / "b", *second_lines), "hour=02")
    merged.add(filled_store(tmp_path / "c", *earlier_hour), "hour=01")
    merged_lines = list(merged.take_new_lines())
    expected = [
        *earlier_hour,
        second_lines[0],
        first_lines[0],
        second_lines[1],
        first_lines[1],
        first_lines[2],
        second_lines[2],
    ]
    assert [raw + b"\n" for _, raw in merged_lines] == expected
    assert [merged.read(offset, len(raw)) + b"\n" for offset, raw in merged_lines] == expected
    assert merged.progress == (sum(map(len, expected)), sum(map(len, expected)))
    merged.close()


def test_merging_waits_for_a_store_that_is_still_filling(tmp_path: Path, spool: Spool) -> None:
    merged = MergedStore()
    complete_lines, later_line = [line(second) for second in (1, 4)], line(9)
    merged.add(filled_store(tmp_path / "a", *complete_lines), "hour=01")
    merged.add(filled_store(tmp_path / "b", later_line), "hour=02")
    spool_part = merged.add(spool, "hour=01", filling=True)
    assert take_lines(merged) == []
    spool.append(line(2))
    assert [raw + b"\n" for raw in take_lines(merged)] == [complete_lines[0], line(2)]
    spool.append(line(3))
    assert [raw + b"\n" for raw in take_lines(merged)] == [line(3)]
    assert not spool_part.is_read
    spool_part.filling = False
    assert [raw + b"\n" for raw in take_lines(merged)] == [complete_lines[1], later_line]
    assert spool_part.is_read
    merged.close()


def test_deactivated_store_stays_readable_but_gets_no_new_lines(tmp_path: Path) -> None:
    merged = MergedStore()
    child_store = merged.add(filled_store(tmp_path / "a", line(1)))
    [(offset, new_line)] = merged.take_new_lines()
    merged.deactivate(child_store)
    with (tmp_path / "a").open("ab") as file:
        file.write(line(2))
    assert take_lines(merged) == []
    assert merged.read(offset, len(new_line)) == new_line
    assert merged.progress == (len(line(1)), len(line(1)))
    merged.close()


def test_lines_without_a_time_come_first(tmp_path: Path) -> None:
    merged_store = MergedStore()
    merged_store.add(filled_store(tmp_path / "a", b"what\n", line(1)))
    merged_store.add(filled_store(tmp_path / "b", line(0)))
    assert [raw + b"\n" for raw in take_lines(merged_store)] == [b"what\n", line(0), line(1)]
    merged_store.close()
