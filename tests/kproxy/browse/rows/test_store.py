"""Stores of lines: files that grow, spools that forget, and several of them as one."""

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


def taken(store: Store) -> list[bytes]:
    return [each for _, each in store.new_lines()]


def opened(path: Path) -> FileStore:
    return FileStore(os.open(path, os.O_RDONLY))


@pytest.fixture
def spool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Spool]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spool = Spool()
    yield spool
    spool.close()


@given(lines=LINES, cuts=st.lists(st.integers(1, 200), max_size=10), chunk=st.integers(1, 64))
def test_a_file_gives_its_lines_however_it_grows_and_is_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cuts: list[int], chunk: int
) -> None:
    whole = b"".join(each + b"\n" for each in lines)
    path = tmp_path_factory.mktemp("grown") / "trace.jsonl"
    path.write_bytes(b"")
    store = opened(path)
    found = []
    ends = sorted({min(cut, len(whole)) for cut in cuts} | {len(whole)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "_CHUNK", chunk)
        for start, end in pairwise([0, *ends]):
            with path.open("ab") as file:
                file.write(whole[start:end])
            found += list(store.new_lines())
    assert [each for _, each in found] == lines
    assert [store.read(place, len(each)) for place, each in found] == lines
    assert store.progress == (len(whole), len(whole))
    store.close()


def test_what_stands_after_the_last_newline_counts_once_nobody_writes_any_more(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"one\ntwo")
    store = opened(path)
    assert taken(store) == [b"one"]
    store.end()
    assert list(store.new_lines()) == [(4, b"two")]
    assert taken(store) == []
    store.close()


def test_a_line_without_end_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LineReader, "LONGEST", 1 << 17)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"x" * (1 << 20) + b"\nafter\n")
    store = opened(path)
    found = taken(store)
    assert found[-1] == b"after"
    assert all(len(each) <= 1 << 18 for each in found)
    store.close()


@given(lines=LINES, cuts=st.lists(st.integers(1, 200), max_size=10), segment=st.integers(1, 100))
def test_a_spool_gives_back_what_was_added_however_it_was_cut(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], cuts: list[int], segment: int
) -> None:
    whole = b"".join(each + b"\n" for each in lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp()))
        spool = Spool(segment=segment)
        found = []
        for start, end in pairwise([0, *sorted({min(cut, len(whole)) for cut in cuts} | {len(whole)})]):
            spool.append(whole[start:end])
            found += list(spool.new_lines())
        assert [each for _, each in found] == lines
        assert [spool.read(place, len(each)) for place, each in found] == lines
        spool.close()


def test_a_spool_has_lines_longer_than_what_is_read_at_once(spool: Spool) -> None:
    lines = [b"a" * 1000, b"b" * 700_000, b"c"]
    spool.append(b"\n".join(lines) + b"\n")
    assert taken(spool) == lines


def test_a_spool_keeps_so_much_and_lets_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spool = Spool(keep=1000, segment=250)
    places = []
    for number in range(100):
        spool.append(b"%099d\n" % number)
        places += [place for place, _ in spool.new_lines()]
    assert len(places) == 100
    assert spool.read(0, 99) == b""
    kept = [spool.read(place, 99) for place in places if place >= spool.first]
    assert kept == [b"%099d" % number for number in range(100 - len(kept), 100)]
    assert 700 <= 100 * len(kept) <= 1000
    assert spool.first == places[-len(kept)]
    spool.close()


def test_a_spool_is_no_file_that_anyone_sees_and_ends_with_a_whole_line_but_not_with_a_torn_one(
    spool: Spool, tmp_path: Path
) -> None:
    last = line(1).rstrip(b"\n")
    spool.append(b"one\n" + last)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert taken(spool) == [b"one"]
    spool.end()
    assert taken(spool) == [last]
    spool.append(last[:-9])
    spool.end()
    assert taken(spool) == []


def filled(path: Path, *lines: bytes) -> FileStore:
    path.write_bytes(b"".join(lines))
    return opened(path)


def test_stores_of_an_hour_are_merged_by_time_and_the_hours_follow_each_other(tmp_path: Path) -> None:
    merged = MergedStore()
    one, two, three = ([line(second) for second in seconds] for seconds in ((3, 5, 9), (1, 4, 20), (2, 3)))
    merged.add(filled(tmp_path / "a", *one), "hour=02")
    merged.add(filled(tmp_path / "b", *two), "hour=02")
    merged.add(filled(tmp_path / "c", *three), "hour=01")
    found = list(merged.new_lines())
    wanted = [*three, two[0], one[0], two[1], one[1], one[2], two[2]]
    assert [each + b"\n" for _, each in found] == wanted
    assert [merged.read(place, len(each)) + b"\n" for place, each in found] == wanted
    assert merged.progress == (sum(map(len, wanted)), sum(map(len, wanted)))
    merged.close()


def test_what_is_still_on_its_way_is_waited_for(tmp_path: Path, spool: Spool) -> None:
    merged = MergedStore()
    whole, later = [line(second) for second in (1, 4)], line(9)
    merged.add(filled(tmp_path / "a", *whole), "hour=01")
    merged.add(filled(tmp_path / "b", later), "hour=02")
    part = merged.add(spool, "hour=01", filling=True)
    assert taken(merged) == []
    spool.append(line(2))
    assert [each + b"\n" for each in taken(merged)] == [whole[0], line(2)]
    spool.append(line(3))
    assert [each + b"\n" for each in taken(merged)] == [line(3)]
    assert not part.is_read
    part.filling = False
    assert [each + b"\n" for each in taken(merged)] == [whole[1], later]
    assert part.is_read
    merged.close()


def test_an_inactive_store_is_still_read_and_counted(tmp_path: Path) -> None:
    merged = MergedStore()
    part = merged.add(filled(tmp_path / "a", line(1)))
    [(place, new_line)] = merged.new_lines()
    merged.deactivate(part)
    with (tmp_path / "a").open("ab") as file:
        file.write(line(2))
    assert taken(merged) == []
    assert merged.read(place, len(new_line)) == new_line
    assert merged.progress == (len(line(1)), len(line(1)))
    merged.close()


def test_lines_without_a_time_come_at_once(tmp_path: Path) -> None:
    merged = MergedStore()
    merged.add(filled(tmp_path / "a", b"what\n", line(1)))
    merged.add(filled(tmp_path / "b", line(0)))
    assert [each + b"\n" for each in taken(merged)] == [b"what\n", line(0), line(1)]
    merged.close()
