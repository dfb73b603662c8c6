"""Trace files are read back, torn and compressed ones too."""

import gzip
import io
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from kproxy.trace import reader
from kproxy.trace.encoding import append_line
from kproxy.trace.lines import GapLine
from kproxy.trace.reader import TraceError, open_trace, trace_files


def made(count: int) -> bytes:
    out = bytearray()
    for number in range(count):
        append_line(GapLine(v=1, ts="2023-11-14T22:13:20.000000Z", connection_id="c", direction="request", bytes=number,
                            reason=""), out)  # fmt: skip
    return bytes(out)


def read(data: bytes, damaged: list[str] | None = None) -> tuple[list[int], list[str]]:
    said: list[str] = []
    opened = open_trace(io.BytesIO(data), "t.jsonl", said.append, None if damaged is None else damaged.append)
    assert opened.lines is not None
    return [line.bytes for line in opened.lines], said  # type: ignore[union-attr]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_reads_plain_gzip_and_zstd(pack) -> None:
    assert read(pack(made(3))) == ([0, 1, 2], [])


def test_reads_zstd_frames_that_follow_each_other() -> None:
    assert read(zstandard.compress(made(2)) + zstandard.compress(made(1)))[0] == [0, 1, 0]


def test_a_torn_last_line_is_left_out_and_said() -> None:
    numbers, said = read(made(3)[:-9])
    assert numbers == [0, 1]
    assert said == ["t.jsonl: the last line is incomplete and was skipped"]


def test_a_whole_last_line_needs_no_newline() -> None:
    assert read(made(2)[:-1]) == ([0, 1], [])


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_cut_compressed_file_gives_what_stands_before_the_cut(pack) -> None:
    data = pack(made(100)) + pack(made(100_000))
    numbers, said = read(data[: len(data) - len(data) // 10])
    assert numbers[:100] == list(range(100))
    assert len(said) <= 2


def test_lines_that_are_none_are_counted_and_the_first_are_named_with_their_numbers_in_the_file() -> None:
    damaged: list[str] = []
    bad = b"garbage\n\n{}\n" + made(1) + b'{"kind": "\\u001b[2J\\u009b"}\n\xff\n[]\n'
    assert read(made(1) + bad + made(2)[:-1], damaged) == ([0, 0, 0, 1], [])
    [sentence] = damaged
    assert sentence.startswith("t.jsonl: 5 of 9 lines could not be read and were skipped: line 2: JSON is malformed: ")
    assert "; line 4: Object missing required field `kind`; line 6: " in sentence
    assert sentence.endswith("; and 2 more")
    assert sentence.isprintable()


def test_line_numbers_go_on_over_chunks_and_lines_that_cross_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHUNK", 64)
    for rows in range(8):
        damaged: list[str] = []
        assert read(made(rows + 1) + b"no\n" + made(1), damaged)[1] == []
        assert f": line {rows + 2}: " in damaged[0]


def test_the_end_of_a_killed_run_is_no_damage_and_a_wrong_byte_is() -> None:
    for killed in (made(3)[:-9], gzip.compress(made(3))[:-12], zstandard.compress(made(3) * 9)[:-12]):
        damaged: list[str] = []
        _, said = read(killed, damaged)
        assert damaged == []
        assert all("incomplete" in line or "ends early" in line for line in said)
    wrong = bytearray(gzip.compress(made(1)) + gzip.compress(made(9)))
    wrong[-6] ^= 0xFF  # the checksum
    damaged = []
    assert read(bytes(wrong), damaged)[1] == []
    assert "compressed data ends early (CRC check failed" in damaged[0]


def test_json_that_is_no_trace_is_refused() -> None:
    with pytest.raises(TraceError, match=r"t\.jsonl is not a kproxy trace"):
        read(b'{"a": 1}\n')


def test_a_newer_format_is_refused_by_its_number() -> None:
    with pytest.raises(TraceError, match=r"has trace format 2, this kproxy reads formats up to 1: upgrade kproxy"):
        read(b'{"v": 2, "kind": "frame"}\n')


@pytest.mark.parametrize(
    "data", [b"", b"\xd4\xc3\xb2\xa1 and more", b"\x1f\x8bbroken", gzip.compress(b"\xd4\xc3\xb2\xa1", mtime=0)]
)
def test_what_is_no_trace_is_handed_back_from_its_first_byte(data: bytes) -> None:
    opened = open_trace(io.BytesIO(data), "x", lambda _: None)
    assert opened.lines is None
    assert opened.source.read() == data


def test_finds_the_files_of_a_directory_also_those_being_written(tmp_path: Path) -> None:
    folder = tmp_path / "date=2023-11-14" / "hour=22"
    folder.mkdir(parents=True)
    names = [".kproxy-a-1-2.jsonl.part", "kproxy-a-1-1.jsonl", "kproxy-b-1-1.jsonl.zst"]
    for name in [*names, "readme.txt"]:
        (folder / name).write_text("")
    assert [path.name for path in trace_files(tmp_path)] == names


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_too_long_is_skipped_and_named(pack, end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHUNK", 512)
    monkeypatch.setattr(reader, "MAX_PER_LINE", 1 << 20)
    long = b'{"kind":"gap","x":"' + b"x" * (1 << 20) + b'"}' + end
    said = ["t.jsonl: line 3 is longer than 1 MiB and was skipped"]
    assert read(pack(made(2) + long + (made(1) if end else b""))) == ([0, 1, *([0] if end else [])], said)


def test_the_memory_of_a_long_line_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_PER_LINE", 1 << 20)
    packed = gzip.compress(made(1) + b"{" + b" " * (64 << 20))
    tracemalloc.start()
    assert read(packed)[0] == [0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20
