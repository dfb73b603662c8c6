"""Trace files may be compressed, grow, be renamed, or be in directories written by several proxies."""

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
from tests.kproxy.browse.sources.source_viewer import run_source

LONG_AGO = (1e9, 1e9)


@pytest.fixture(autouse=True)
def _scan_quickly(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr(files, "_SCAN_INTERVAL_S", 0.01)
    monkeypatch.setattr(files, "_SHARE", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def lines(first: int, last: int, connection: str = "web-1-1") -> list[bytes]:
    return [line(second, connection) for second in range(first, last)]


def write_file(path: Path, data: bytes, *, old: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if old:
        os.utime(path, LONG_AGO)
    return path


def zstd(*chunks: list[bytes]) -> bytes:
    """Compress each chunk to one zstd frame, as the trace writer does."""
    return b"".join(zstandard.ZstdCompressor().compress(b"".join(chunk)) for chunk in chunks)


@pytest.mark.parametrize("name", ["trace.jsonl", "a file of any name"])
@pytest.mark.parametrize(
    "compress",
    [
        b"".join,
        lambda lines: gzip.compress(b"".join(lines[:4])) + gzip.compress(b"".join(lines[4:])),
        lambda lines: zstd(lines[:4], lines[4:]),
    ],
    ids=["plain", "gzip", "zstd"],
)
async def test_content_decides_how_a_complete_file_is_read(tmp_path: Path, compress: object, name: str) -> None:
    expected = lines(0, 9)
    path = write_file(tmp_path / name, compress(expected))  # type: ignore[operator]
    async with run_source(TraceSource([path])) as viewer:
        assert await viewer.until_lines(9) == expected
        assert viewer.read_back == viewer.lines
        await viewer.until(lambda: viewer.source.phase is SourcePhase.ENDED)
        assert viewer.source.name == name
        assert (viewer.source.sentence, list(viewer.source.messages), viewer.source.live) == ("", [], False)


async def test_growing_file_is_still_followed_after_it_is_renamed(tmp_path: Path) -> None:
    part_path = tmp_path / ".kproxy-web-1-1.jsonl.part"
    part_path.write_bytes(line(0))
    async with run_source(TraceSource([part_path])) as viewer:
        await viewer.until_lines(1)
        await viewer.until(lambda: viewer.source.phase is SourcePhase.LIVE)
        assert viewer.source.sentence == "following"
        with part_path.open("ab") as file:
            file.write(line(1)[:20])
            file.flush()
            await viewer.until(lambda: viewer.source.store.progress[0] > len(line(0)))
            file.write(line(1)[20:])
        await viewer.until_lines(2)
        final_path = part_path.rename(tmp_path / "kproxy-web-1-1.jsonl")
        with final_path.open("ab") as file:
            file.write(line(2))
        assert await viewer.until_lines(3) == lines(0, 3)
        os.utime(final_path, LONG_AGO)
        await viewer.until(lambda: viewer.source.phase is SourcePhase.ENDED)


async def test_growing_compressed_file_is_followed(tmp_path: Path) -> None:
    part_path = write_file(tmp_path / ".kproxy-web-1-1.jsonl.zst.part", zstd(lines(0, 3)), old=False)
    async with run_source(TraceSource([part_path])) as viewer:
        await viewer.until_lines(3)
        await viewer.until(lambda: viewer.source.phase is SourcePhase.LIVE)
        with part_path.open("ab") as file:
            file.write(zstd(lines(3, 5)))
        assert await viewer.until_lines(5) == lines(0, 5)


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
async def test_truncated_compressed_file_is_read_up_to_the_cut(tmp_path: Path, compress: object) -> None:
    expected = [line(second, os.urandom(200).hex()) for second in range(2000)]
    path = write_file(tmp_path / "torn.jsonl.gz", compress(b"".join(expected))[:-300_000])  # type: ignore[operator]
    async with run_source(TraceSource([path])) as viewer:
        await viewer.until(lambda: viewer.source.messages)
        await viewer.until(lambda: viewer.source.phase is SourcePhase.ENDED)
        await viewer.until(lambda: viewer.source.store.progress[0] == viewer.source.store.progress[1])
        actual = [raw + b"\n" for raw in viewer.lines[:-1]]  # the last line is incomplete
        assert 100 < len(actual) < 2000
        assert actual == expected[: len(actual)]
        [message] = viewer.source.messages
        assert message == f"{path}: compressed data ends early; everything before that point was read"


async def test_damage_in_a_compressed_file_is_reported_once(tmp_path: Path) -> None:
    compressed = bytearray(gzip.compress(b"".join(line(second, os.urandom(200).hex()) for second in range(500))))
    compressed[-5000] ^= 0xFF
    path = write_file(tmp_path / "damaged.jsonl.gz", bytes(compressed))
    async with run_source(TraceSource([path])) as viewer:
        await viewer.until(lambda: viewer.source.phase is SourcePhase.ENDED)
        [message] = viewer.source.messages
        assert "compressed data is damaged" in message


async def test_last_line_without_newline_counts_once_the_file_is_complete(tmp_path: Path) -> None:
    path = write_file(tmp_path / "trace.jsonl", b"".join(lines(0, 3))[:-1])
    async with run_source(TraceSource([path])) as viewer:
        assert await viewer.until_lines(3) == lines(0, 3)


async def test_traces_of_several_proxies_in_a_directory_are_merged(tmp_path: Path) -> None:
    morning = tmp_path / "date=2026-11-21" / "hour=08"
    noon = tmp_path / "date=2026-11-21" / "hour=12"
    node_a, node_b = lines(28800, 28900, "a-1-1"), [line(second + 0.5, "b-1-1") for second in range(28800, 28900)]
    later = lines(43200, 43210, "a-1-2")
    write_file(noon / "kproxy-a-1-2.jsonl", b"".join(later))
    write_file(morning / "kproxy-a-1-1.jsonl", b"".join(node_a))
    write_file(morning / "kproxy-b-1-1.jsonl.zst", zstd(node_b[:50], node_b[50:]))
    async with run_source(TraceSource([tmp_path])) as viewer:
        actual = await viewer.until_lines(210)
        assert actual == [raw for pair in zip(node_a, node_b, strict=True) for raw in pair] + later
        assert viewer.read_back == viewer.lines
        await viewer.until(lambda: viewer.source.phase is SourcePhase.ENDED)


async def test_running_proxy_is_followed_across_file_rotations(tmp_path: Path) -> None:
    at = 1_795_000_000 * 1_000_000_000
    writer = TraceWriter(tmp_path, node="web", max_bytes=300, warn=lambda _: None)
    source = TraceSource([tmp_path])
    async with run_source(source) as viewer:
        for number in range(12):
            writer.add_encoded(line(number), at=at + number * HOUR // 8)
            writer.flush(at=at + number * HOUR // 8)
            await viewer.until_lines(number + 1)
        await viewer.until(lambda: source.phase is SourcePhase.LIVE)
        writer.close(at=at + 2 * HOUR)
        assert await viewer.until_lines(12) == lines(0, 12)
        paths = trace_files(tmp_path)
        assert len(paths) > 3
        assert {path.suffix for path in paths} == {".jsonl"}
        for path in paths:
            os.utime(path, LONG_AGO)
        await viewer.until(lambda: source.phase is SourcePhase.ENDED)
        await viewer.until(lambda: not source._active)
        assert await viewer.until_lines(12) == lines(0, 12)
        assert viewer.read_back == viewer.lines
        write_file(tmp_path / "date=2026-11-22" / "hour=01" / "kproxy-web-9-1.jsonl", line(99), old=False)
        assert (await viewer.until_lines(13))[-1] == line(99)


async def test_several_files_are_merged_and_an_unreadable_one_is_reported_once(tmp_path: Path) -> None:
    first, second = write_file(tmp_path / "a", line(2)), write_file(tmp_path / "b", line(1))
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    async with run_source(TraceSource([first, second, loop])) as viewer:
        assert await viewer.until_lines(2) == [line(1), line(2)]
        await viewer.until(lambda: viewer.source.phase is SourcePhase.ENDED)
        assert viewer.source.name == "3 files"
        assert len(viewer.source.messages) == 1
