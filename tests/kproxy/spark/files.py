"""Write trace files, and convert Spark rows back to lines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zstandard
from pyspark.sql import DataFrame, Row

from kproxy.trace.encoding import encode_line
from kproxy.trace.lines import Line

#: Columns that rows hold as JSON text.
_JSON = {"body", "edit", "also", "rivals", "detail"}
REPOSITORY = Path(__file__).parents[3]
CAPTURES = REPOSITORY / "captures"
TRACE_1 = CAPTURES / "trace-1.jsonl"


def trace_bytes(*lines: Line) -> bytes:
    """Return lines encoded as in a trace."""
    return b"".join(map(encode_line, lines))


def write(path: Path, data: bytes) -> Path:
    """Write a file, compressed according to its suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if ".gz" in path.suffixes:
        data = gzip.compress(data)
    elif ".zst" in path.suffixes:
        data = zstandard.ZstdCompressor().compress(data)
    path.write_bytes(data)
    return path


def parse_lines(json_lines: Iterable[bytes | str]) -> list[dict[str, Any]]:
    """Return JSON lines in the format of `lines_in`."""
    return sorted((json.loads(json_line) for json_line in json_lines), key=_sort_key)


def lines_in(rows: DataFrame) -> list[dict[str, Any]]:
    """Return the sorted lines of rows that have the schema TABLE or ROW."""
    valid_rows = rows.where("corrupt is null and damage is null").drop("file", "corrupt", "damage", "date", "hour")
    return sorted(map(line_of, valid_rows.collect()), key=_sort_key)


def _sort_key(line: dict[str, Any]) -> str:
    return json.dumps(line, sort_keys=True)


def line_of(row: Row) -> dict[str, Any]:
    """Return the line of a row that has the schema TRACE."""
    line: dict[str, Any] = _plain(row.asDict(recursive=True))
    return line


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: (_parse_json if name in _JSON else _plain)(inner)
            for name, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return value


def _parse_json(value: Any) -> Any:
    return list(map(_parse_json, value)) if isinstance(value, list) else json.loads(value)
