"""Trace files are read, including truncated and compressed ones."""

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


def encode_lines(count: int) -> bytes:
    output = bytearray()
    for number in range(count):
        append_line(GapLine(v=1, ts="2023-11-14T22:13:20.000000Z", connection_id="c", direction="request", bytes=number,
                            reason=""), output)  # fmt: skip
    return bytes(output)


def read_numbers(data: bytes, damage_reports: list[str] | None = None) -> tuple[list[int], list[str]]:
    warnings: list[str] = []
    trace = open_trace(
        io.BytesIO(data), "t.jsonl", warnings.append, None if damage_reports is None else damage_reports.append
    )
    assert trace.lines is not None
    return [line.bytes for line in trace.lines], warnings  # type: ignore[union-attr]


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
def test_plain_gzip_and_zstd_files_are_read(compress) -> None:
    assert read_numbers(compress(encode_lines(3))) == ([0, 1, 2], [])


def test_consecutive_zstd_frames_are_read() -> None:
    assert read_numbers(zstandard.compress(encode_lines(2)) + zstandard.compress(encode_lines(1)))[0] == [0, 1, 0]


def test_incomplete_last_line_is_skipped_with_a_warning() -> None:
    numbers, warnings = read_numbers(encode_lines(3)[:-9])
    assert numbers == [0, 1]
    assert warnings == ["t.jsonl: the last line is incomplete and was skipped"]


def test_complete_last_line_needs_no_newline() -> None:
    assert read_numbers(encode_lines(2)[:-1]) == ([0, 1], [])


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_truncated_compressed_file_is_read_up_to_the_cut(compress) -> None:
    data = compress(encode_lines(100)) + compress(encode_lines(100_000))
    numbers, warnings = read_numbers(data[: len(data) - len(data) // 10])
    assert numbers[:100] == list(range(100))
    assert len(warnings) <= 2


def test_invalid_lines_are_reported_with_their_numbers() -> None:
    damage_reports: list[str] = []
    invalid_lines = b"garbage\n\n{}\n" + encode_lines(1) + b'{"kind": "\\u001b[2J\\u009b"}\n\xff\n[]\n'
    assert read_numbers(encode_lines(1) + invalid_lines + encode_lines(2)[:-1], damage_reports) == ([0, 0, 0, 1], [])
    [sentence] = damage_reports
    assert sentence.startswith("t.jsonl: 5 of 9 lines could not be read and were skipped: line 2: JSON is malformed: ")
    assert "; line 4: Object missing required field `kind`; line 6: " in sentence
    assert sentence.endswith("; and 2 more")
    assert sentence.isprintable()


def test_line_numbers_are_correct_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHUNK", 64)
    for line_count in range(8):
        damage_reports: list[str] = []
        assert read_numbers(encode_lines(line_count + 1) + b"no\n" + encode_lines(1), damage_reports)[1] == []
        assert f": line {line_count + 2}: " in damage_reports[0]


def test_truncation_does_not_count_as_damage_but_a_wrong_byte_does() -> None:
    for truncated in (
        encode_lines(3)[:-9],
        gzip.compress(encode_lines(3))[:-12],
        zstandard.compress(encode_lines(3) * 9)[:-12],
    ):
        damage_reports: list[str] = []
        _, warnings = read_numbers(truncated, damage_reports)
        assert damage_reports == []
        assert all("incomplete" in warning or "ends early" in warning for warning in warnings)
    corrupted = bytearray(gzip.compress(encode_lines(1)) + gzip.compress(encode_lines(9)))
    corrupted[-6] ^= 0xFF  # in the checksum
    damage_reports = []
    assert read_numbers(bytes(corrupted), damage_reports)[1] == []
    assert "compressed data ends early (CRC check failed" in damage_reports[0]


def test_json_that_is_not_a_trace_is_rejected() -> None:
    with pytest.raises(TraceError, match=r"t\.jsonl is not a kproxy trace"):
        read_numbers(b'{"a": 1}\n')


def test_newer_format_is_rejected() -> None:
    with pytest.raises(TraceError, match=r"has trace format 2, this kproxy reads formats up to 1: upgrade kproxy"):
        read_numbers(b'{"v": 2, "kind": "frame"}\n')


@pytest.mark.parametrize(
    "data", [b"", b"\xd4\xc3\xb2\xa1 and more", b"\x1f\x8bbroken", gzip.compress(b"\xd4\xc3\xb2\xa1", mtime=0)]
)
def test_other_data_is_returned_from_its_first_byte(data: bytes) -> None:
    result = open_trace(io.BytesIO(data), "x", lambda _: None)
    assert result.lines is None
    assert result.source.read() == data


def test_complete_and_unfinished_files_in_a_directory_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "date=2023-11-14" / "hour=22"
    folder.mkdir(parents=True)
    names = [".kproxy-a-1-2.jsonl.part", "kproxy-a-1-1.jsonl", "kproxy-b-1-1.jsonl.zst"]
    for name in [*names, "readme.txt"]:
        (folder / name).write_text("")
    assert [path.name for path in trace_files(tmp_path)] == names


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("line_end", [b"\n", b""])
def test_overlong_line_is_skipped_with_a_warning(compress, line_end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CHUNK", 512)
    monkeypatch.setattr(reader, "MAX_PER_LINE", 1 << 20)
    long_line = b'{"kind":"gap","x":"' + b"x" * (1 << 20) + b'"}' + line_end
    warnings = ["t.jsonl: line 3 is longer than 1 MiB and was skipped"]
    assert read_numbers(compress(encode_lines(2) + long_line + (encode_lines(1) if line_end else b""))) == (
        [0, 1, *([0] if line_end else [])],
        warnings,
    )


@pytest.mark.slow
def test_memory_for_a_long_line_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_PER_LINE", 1 << 20)
    compressed = gzip.compress(encode_lines(1) + b"{" + b" " * (64 << 20))
    tracemalloc.start()
    assert read_numbers(compressed)[0] == [0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20
