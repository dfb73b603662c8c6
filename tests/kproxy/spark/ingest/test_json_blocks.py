"""Parsing whole blocks with Arrow yields the same rows as parsing line by line, which unusual lines still need."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from kproxy.spark.ingest.arrow import BatchReader
from kproxy.spark.ingest.decode import uri_of
from kproxy.spark.ingest.json_blocks import parse_block
from kproxy.spark.ingest.local_tables import Piece, _blocks
from kproxy.spark.ingest.schema import ROW
from tests.kproxy.spark.files import TRACE_1, trace_bytes
from tests.kproxy.spark.sample_lines import close, finding_entry, request, response

LINES = trace_bytes(
    request(at=1),
    response(at=2, topics=[]),
    close(at=3, by="client", how="fin"),
    response(at=4, findings=[finding_entry("L001")]),
)
FIRST = LINES.splitlines()[0]


def rows_of(block: bytes) -> pa.Table:
    return pa.Table.from_batches(list(BatchReader(ROW).read_block(block, "file:/x")))


def rows_line_by_line(block: bytes) -> pa.Table:
    reader = BatchReader(ROW)
    return pa.Table.from_batches([row for line in block.splitlines() for row in reader._batches([line], "file:/x")])


@pytest.mark.parametrize("block", [LINES, LINES * 100, LINES[:-1], TRACE_1.read_bytes(), b""])
def test_block_yields_the_same_rows_as_its_lines(block: bytes) -> None:
    if block:
        assert rows_of(block).combine_chunks().equals(rows_line_by_line(block).combine_chunks())
    else:
        assert list(BatchReader(ROW).read_block(block, "file:/x")) == []


def test_ordinary_lines_are_parsed_together() -> None:
    table = parse_block(LINES)
    assert table is not None
    assert table["kind"].to_pylist() == ["request", "response", "close", "response"]


@pytest.mark.parametrize(
    "special_line",
    [
        b"no JSON", b"{}", b"[]", b"", b" ", FIRST + b" " + FIRST, FIRST[:-1], b'{"kind":"request"}', b"\xff" + FIRST,
        FIRST.replace(b'"v":1', b'"v":99'), FIRST.replace(b'"kind":"request"', b'"kind":"other"'),
        FIRST.replace(b'"size":100', b'"size":"x"'), FIRST.replace(b'"size":100', b'"size":1.5'),
        FIRST.replace(b"2026-11-21", b"2026-13-41"), FIRST.replace(b"000Z", b"000"),
        FIRST.replace(b'"size":100', b'"size":100,"body":{"a":[1]}'), FIRST.replace(b'"', b"'"),
    ],
)  # fmt: skip
def test_block_with_a_special_line_is_parsed_line_by_line(
    special_line: bytes,
) -> None:
    block = LINES + special_line + b"\n" + LINES * 20
    assert parse_block(block) is None
    rows = rows_of(block)
    lines = rows.filter(rows["kind"].is_valid())
    assert lines.num_rows >= 84
    has_body = b"body" in special_line
    assert (lines["body"].null_count < lines.num_rows) is has_body
    assert rows["corrupt"].null_count == rows.num_rows - (not has_body and bool(special_line.strip()))


def test_block_whose_values_do_not_match_its_lines_is_not_parsed() -> None:
    half = FIRST.index(b",") + 1
    assert parse_block(FIRST + FIRST + b"\n" + FIRST[:half] + b"\n" + FIRST[half:] + b"\n") is None


@pytest.mark.parametrize("piece_size", [1, 100, 333, 1000])
def test_pieces_of_a_file_together_contain_every_line_once(tmp_path: Path, piece_size: int) -> None:
    data = trace_bytes(*(request(at=number, correlation_id=number) for number in range(20)))[:-1]
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    pieces = [
        Piece(uri_of(path), True, start, min(start + piece_size, len(data)))
        for start in range(0, len(data), piece_size)
    ]
    content = b"".join(block for piece in pieces for block in _blocks(piece))
    assert content == data
    assert [json.loads(line)["correlation_id"] for line in content.splitlines()] == list(range(20))
