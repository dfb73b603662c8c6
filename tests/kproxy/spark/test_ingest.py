"""Files can be read that are compressed, torn, damaged or still being written."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
import zstandard
from pyspark.sql import Row, SparkSession

from kproxy.errors import UserError
from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.files import read_files
from kproxy.spark.ingest.inputs import find_files
from tests.kproxy.spark.files import CAPTURES, lines_in, parse_lines, trace_bytes, write
from tests.kproxy.spark.sample_lines import request, response

LINES = [request("Produce", at=second, correlation_id=second) for second in range(20)]
DATA = trace_bytes(*LINES)
NAMES = ["x.jsonl", "x.jsonl.gz", "x.jsonl.zst"]


def read_lines(spark: SparkSession, *paths: Path | str, growing: bool = False) -> tuple[list[int], list[str]]:
    """Return the correlation ids of the lines, and the corrupt lines and reports about damaged files."""
    files = find_files(spark, map(str, paths), growing=growing)
    rows: list[Row] = read_files(spark, files, CaptureOptions()).select("correlation_id", "corrupt", "damage").collect()
    ids = sorted(row["correlation_id"] for row in rows if row["correlation_id"] is not None)
    return ids, sorted(filter(None, (row["corrupt"] or row["damage"] for row in rows)))


@pytest.mark.parametrize("name", NAMES)
def test_torn_last_line_is_corrupt_but_a_complete_one_is_read(spark: SparkSession, tmp_path: Path, name: str) -> None:
    ids, [report] = read_lines(spark, write(tmp_path / "torn" / name, DATA[:-30]))
    assert ids == list(range(19))
    assert report.startswith('{"kind":"request"') or report.endswith("the last line is incomplete and was skipped")
    assert read_lines(spark, write(tmp_path / "whole" / name, DATA[:-1])) == (list(range(20)), [])


@pytest.mark.parametrize("name", NAMES)
def test_invalid_lines_are_kept_as_corrupt(spark: SparkSession, tmp_path: Path, name: str) -> None:
    first, second, *_ = DATA.splitlines()
    invalid_lines = [
        b"no JSON", b"[1]", b'"a"', b"7", b"null", b"{}", b"{", b'{"kind":"request"}', first[:80], b"\xff\xfe", b"\0",
        first.replace(b'"size":100', b'"size":"x"'), first.replace(b'"size":100', b'"size":1e400'),
        first.replace(b'"size":100', b'"size":9223372036854775808'), first.replace(b"2026-11-21", b"2026-13-41"),
        first.replace(b'"size":100', b'"size":1.5'), first.replace(b'"size":100', b'"size":NaN'), b"[" * 2000,
        first.replace(b'"', b"'"), first[:40] + first,
    ]  # fmt: skip
    data = b"\n".join([*invalid_lines, b"", b"  ", second, b""])
    ids, corrupt = read_lines(spark, write(tmp_path / name, data))
    assert ids == [1]
    assert len(corrupt) == len(invalid_lines)
    assert {"no JSON", "[1]", "null", "{}", "{"} < set(corrupt)


@pytest.mark.parametrize("name", NAMES)
def test_hostile_text_is_preserved_exactly(spark: SparkSession, tmp_path: Path, name: str) -> None:
    line = json.loads(DATA.splitlines()[0])
    hostile = [
        "",
        "\0",
        "\x1b[2J",
        "t\u202e\U0001f600",
        "\\u0041",
        '"},{"',
        "<script>",
        "a\u2028b\x85c\rd\ne",
        "x" * 100_000,
    ]
    edit = {"kind": "k", "field": "f", "detail": {"a": [1, {"b": None}]}, "then": {"kind": "k", "field": "g"}}
    finding = {"code": "L001", "name": "n", "severity": "error", "message": "m", "edit": edit, "rivals": [edit, edit]}
    lines = [
        *(line | {"client_id": text, "topics": [{"topic": text}], "body": {text[:99]: [text]}} for text in hostile),
        line | {"body": {"deep": [[[{"a": [1, -2.5, True, None]}]]], "big": 1 << 62}, "offset": (1 << 63) - 1},
        line | {"findings": [finding, finding | {"span": [1, 2], "confidence": 0.25}], "topics": [{}]},
    ]  # fmt: skip
    path = write(tmp_path / name, "\n".join(map(json.dumps, lines)).encode())
    rows = read_files(spark, find_files(spark, [str(path)]), CaptureOptions()).cache()
    assert rows.where("corrupt is not null").count() == 0
    assert lines_in(rows) == parse_lines(map(json.dumps, lines))


def test_truncated_compressed_files_are_read_and_reported(spark: SparkSession, tmp_path: Path) -> None:
    noise = trace_bytes(*(response(connection_id=os.urandom(40).hex(), correlation_id=99) for _ in range(2000)))
    cut_file = write(tmp_path / "a.jsonl.gz", DATA + noise)
    cut_file.write_bytes(cut_file.read_bytes()[:-5000])
    torn_file = write(tmp_path / "b.jsonl.zst", DATA)
    torn_file.write_bytes(torn_file.read_bytes() + zstandard.ZstdCompressor().compress(noise)[:-5000])
    garbage_file = tmp_path / "c.jsonl.gz"
    garbage_file.write_bytes(gzip.compress(b"x")[:10] + b"\xff" * 100)
    intact_file = write(tmp_path / "d.jsonl", DATA)
    ids, reports = read_lines(spark, cut_file, torn_file, garbage_file, intact_file)
    assert ids[:60] == [index for index in range(20) for _ in range(3)]
    assert 1000 < ids.count(99) < 4000
    reports = [text.removeprefix(f"{tmp_path}/") for text in reports]
    assert [text[:10] for text in reports if "ends early" in text] == ["a.jsonl.gz", "c.jsonl.gz"]
    assert "b.jsonl.zst: the last line is incomplete and was skipped" in reports


def test_invalid_and_truncated_captures_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    capture_bytes = gzip.decompress((CAPTURES / "metadata-retry-loop.pcap.gz").read_bytes())
    write(tmp_path / "a.pcap", b"no capture at all")
    write(tmp_path / "b.pcap", capture_bytes[:-7])
    write(tmp_path / "c.pcap", capture_bytes)
    ids, reports = read_lines(spark, tmp_path)
    assert len(ids) > 20
    no_capture, truncated = sorted(text.removeprefix(f"{tmp_path}/") for text in reports)
    assert no_capture.startswith("a.pcap is not a capture file")
    assert truncated.startswith("b.pcap: ")


def test_directory_without_traces_and_missing_path_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no trace .* and no capture"):
        find_files(spark, [str(tmp_path)])
    write(tmp_path / "notes.txt", b"hello")
    with pytest.raises(UserError, match=r"no trace .* and no capture"):
        find_files(spark, [str(tmp_path)])
    with pytest.raises(UserError, match="no such file or directory"):
        find_files(spark, [str(tmp_path / "nothing")])


@pytest.mark.parametrize("path", ["{}/what it is", "file:{}/what it is"])
def test_file_given_by_path_is_read_whatever_its_name(spark: SparkSession, tmp_path: Path, path: str) -> None:
    write(tmp_path / "what it is", DATA)
    assert read_lines(spark, path.format(tmp_path)) == (list(range(20)), [])
    write(tmp_path / "what it is", b"just words")
    with pytest.raises(UserError, match="what it is is not a capture file"):
        find_files(spark, [path.format(tmp_path)])


def test_growing_trace_is_read_once_before_and_after_its_rename(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "date=2026-11-21" / "hour=05"
    unfinished_path = write(folder / ".kproxy-n-1-1.jsonl.part", DATA[:-30])
    assert read_lines(spark, tmp_path, growing=True) == (
        list(range(19)),
        [],
    )  # the incomplete last line is still being written
    assert read_lines(spark, unfinished_path, growing=True) == (list(range(19)), [])
    with pytest.raises(UserError):  # no file is complete
        find_files(spark, [str(tmp_path)])
    listed_files = find_files(spark, [str(tmp_path)], growing=True)
    unfinished_path.write_bytes(DATA)
    unfinished_path.rename(folder / "kproxy-n-1-1.jsonl")  # the rename happens between listing and reading
    assert read_files(spark, listed_files, CaptureOptions()).count() == 20
    write(folder / ".kproxy-n-1-2.jsonl.zst.part", DATA)
    write(folder / "other.jsonl.part", DATA)  # from a writer that does not hide its files
    assert read_lines(spark, tmp_path, growing=True) == ([index for index in range(20) for _ in range(3)], [])
    assert [Path(file.path).name for file in find_files(spark, [str(tmp_path)])] == ["kproxy-n-1-1.jsonl"]


def test_complete_file_takes_precedence_over_its_partial_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished_path = write(tmp_path / ".x.jsonl.part", DATA)
    [growing_file] = find_files(spark, [str(tmp_path)], growing=True)
    unfinished_path.rename(tmp_path / "x.jsonl")
    # The file was renamed after it was listed.
    monkeypatch.setattr("kproxy.spark.ingest.inputs._growing", lambda _: [growing_file])
    assert read_lines(spark, tmp_path, growing=True) == (list(range(20)), [])


def test_paths_may_contain_spaces_and_uri_characters(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c#d"
    write(folder / "é +x.jsonl.gz", DATA)
    write(folder / ".y z.jsonl.part", DATA)
    assert read_lines(spark, folder, growing=True) == ([index for index in range(20) for _ in range(2)], [])
