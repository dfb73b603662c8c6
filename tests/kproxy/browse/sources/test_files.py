"""Traces in files: in place, compressed, growing, renamed, in the directories that a fleet of proxies writes."""

import gzip
import os
from pathlib import Path

import pytest
import zstandard

from kproxy.browse.sources import files
from kproxy.browse.sources.files import TraceSource
from kproxy.browse.sources.source import SourcePhase
from kproxy.trace.reader import trace_files
from kproxy.trace.writer import HOUR, TraceWriter
from tests.kproxy.browse.lines import line
from tests.kproxy.browse.sources.source_viewer import following

LONG_AGO = (1e9, 1e9)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr(files, "_SCAN_INTERVAL_S", 0.01)
    monkeypatch.setattr(files, "_SHARE", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def lines(first: int, last: int, connection: str = "web-1-1") -> list[bytes]:
    return [line(second, connection) for second in range(first, last)]


def written(path: Path, data: bytes, *, old: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if old:
        os.utime(path, LONG_AGO)
    return path


def zstd(*chunks: list[bytes]) -> bytes:
    """A frame for each chunk, as the writer does it."""
    return b"".join(zstandard.ZstdCompressor().compress(b"".join(chunk)) for chunk in chunks)


@pytest.mark.parametrize("name", ["trace.jsonl", "a file of any name"])
@pytest.mark.parametrize(
    "pack",
    [
        b"".join,
        lambda all_: gzip.compress(b"".join(all_[:4])) + gzip.compress(b"".join(all_[4:])),
        lambda all_: zstd(all_[:4], all_[4:]),
    ],
    ids=["plain", "gzip", "zstd"],
)
async def test_a_whole_file_is_read_by_what_is_in_it(tmp_path: Path, pack: object, name: str) -> None:
    wanted = lines(0, 9)
    path = written(tmp_path / name, pack(wanted))  # type: ignore[operator]
    async with following(TraceSource([path])) as seen:
        assert await seen.until_lines(9) == wanted
        assert seen.read_back == seen.lines
        await seen.until(lambda: seen.source.phase is SourcePhase.ENDED)
        assert seen.source.name == name
        assert (seen.source.sentence, list(seen.source.messages), seen.source.live) == ("", [], False)


async def test_a_growing_file_is_followed_through_its_renaming(tmp_path: Path) -> None:
    part = tmp_path / ".kproxy-web-1-1.jsonl.part"
    part.write_bytes(line(0))
    async with following(TraceSource([part])) as seen:
        await seen.until_lines(1)
        await seen.until(lambda: seen.source.phase is SourcePhase.LIVE)
        assert seen.source.sentence == "following"
        with part.open("ab") as file:
            file.write(line(1)[:20])
            file.flush()
            await seen.until(lambda: seen.source.store.progress[0] > len(line(0)))
            file.write(line(1)[20:])
        await seen.until_lines(2)
        whole = part.rename(tmp_path / "kproxy-web-1-1.jsonl")
        with whole.open("ab") as file:
            file.write(line(2))
        assert await seen.until_lines(3) == lines(0, 3)
        os.utime(whole, LONG_AGO)
        await seen.until(lambda: seen.source.phase is SourcePhase.ENDED)


async def test_a_compressed_file_is_followed_too(tmp_path: Path) -> None:
    part = written(tmp_path / ".kproxy-web-1-1.jsonl.zst.part", zstd(lines(0, 3)), old=False)
    async with following(TraceSource([part])) as seen:
        await seen.until_lines(3)
        await seen.until(lambda: seen.source.phase is SourcePhase.LIVE)
        with part.open("ab") as file:
            file.write(zstd(lines(3, 5)))
        assert await seen.until_lines(5) == lines(0, 5)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
async def test_a_torn_compressed_file_gives_what_stands_before_it(tmp_path: Path, pack: object) -> None:
    wanted = [line(second, os.urandom(200).hex()) for second in range(2000)]
    path = written(tmp_path / "torn.jsonl.gz", pack(b"".join(wanted))[:-300_000])  # type: ignore[operator]
    async with following(TraceSource([path])) as seen:
        await seen.until(lambda: seen.source.messages)
        await seen.until(lambda: seen.source.phase is SourcePhase.ENDED)
        await seen.until(lambda: seen.source.store.progress[0] == seen.source.store.progress[1])
        found = [each + b"\n" for each in seen.lines[:-1]]  # the last line is torn
        assert 100 < len(found) < 2000
        assert found == wanted[: len(found)]
        [sentence] = seen.source.messages
        assert sentence == f"{path}: compressed data ends early; everything before that point was read"


async def test_damage_in_a_compressed_file_is_said_once(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"".join(line(second, os.urandom(200).hex()) for second in range(500))))
    packed[-5000] ^= 0xFF
    path = written(tmp_path / "damaged.jsonl.gz", bytes(packed))
    async with following(TraceSource([path])) as seen:
        await seen.until(lambda: seen.source.phase is SourcePhase.ENDED)
        [sentence] = seen.source.messages
        assert "compressed data is damaged" in sentence


async def test_a_last_line_without_newline_counts_when_nobody_writes_any_more(tmp_path: Path) -> None:
    path = written(tmp_path / "trace.jsonl", b"".join(lines(0, 3))[:-1])
    async with following(TraceSource([path])) as seen:
        assert await seen.until_lines(3) == lines(0, 3)


async def test_a_directory_of_a_fleet_is_one_story(tmp_path: Path) -> None:
    morning = tmp_path / "date=2026-11-21" / "hour=08"
    noon = tmp_path / "date=2026-11-21" / "hour=12"
    one, two = lines(28800, 28900, "a-1-1"), [line(second + 0.5, "b-1-1") for second in range(28800, 28900)]
    later = lines(43200, 43210, "a-1-2")
    written(noon / "kproxy-a-1-2.jsonl", b"".join(later))
    written(morning / "kproxy-a-1-1.jsonl", b"".join(one))
    written(morning / "kproxy-b-1-1.jsonl.zst", zstd(two[:50], two[50:]))
    async with following(TraceSource([tmp_path])) as seen:
        found = await seen.until_lines(210)
        assert found == [each for pair in zip(one, two, strict=True) for each in pair] + later
        assert seen.read_back == seen.lines
        await seen.until(lambda: seen.source.phase is SourcePhase.ENDED)


async def test_what_a_proxy_writes_now_is_followed_from_file_to_file(tmp_path: Path) -> None:
    at = 1_795_000_000 * 1_000_000_000
    writer = TraceWriter(tmp_path, node="web", max_bytes=300, warn=lambda _: None)
    source = TraceSource([tmp_path])
    async with following(source) as seen:
        for number in range(12):
            writer.add_encoded(line(number), at=at + number * HOUR // 8)
            writer.flush(at=at + number * HOUR // 8)
            await seen.until_lines(number + 1)
        await seen.until(lambda: source.phase is SourcePhase.LIVE)
        writer.close(at=at + 2 * HOUR)
        assert await seen.until_lines(12) == lines(0, 12)
        whole = trace_files(tmp_path)
        assert len(whole) > 3
        assert {path.suffix for path in whole} == {".jsonl"}
        for path in whole:
            os.utime(path, LONG_AGO)
        await seen.until(lambda: source.phase is SourcePhase.ENDED)
        await seen.until(lambda: not source._active)
        assert await seen.until_lines(12) == lines(0, 12)
        assert seen.read_back == seen.lines
        written(tmp_path / "date=2026-11-22" / "hour=01" / "kproxy-web-9-1.jsonl", line(99), old=False)
        assert (await seen.until_lines(13))[-1] == line(99)


async def test_several_files_are_merged_and_one_that_cannot_be_read_is_told_once(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a", line(2)), written(tmp_path / "b", line(1))
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    async with following(TraceSource([first, second, loop])) as seen:
        assert await seen.until_lines(2) == [line(1), line(2)]
        await seen.until(lambda: seen.source.phase is SourcePhase.ENDED)
        assert seen.source.name == "3 files"
        assert len(seen.source.messages) == 1
