"""JSON lines as Arrow batches of a Spark schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import types as T

from kproxy.spark.ingest.arrow_types import arrow_schema, text_for_times
from kproxy.spark.ingest.json_blocks import parse_block
from kproxy.spark.ingest.schema import TEXT, TRACE
from kproxy.trace.encoding import encode_json, parse_line
from kproxy.trace.lines import FORMAT

_CHUNK_LINES = 4096
_CHUNK_BYTES = 8 << 20
#: Fewer lines than this are parsed one by one if they cannot be parsed together.
_FEW_LINES = 32
#: The maximum number of characters kept of a text that is not a line.
MAX_CORRUPT = 4096


class BatchReader:
    """Builds batches of a schema with columns of ROW. If it lacks `corrupt`, texts that are not lines are dropped."""

    def __init__(self, schema: T.StructType) -> None:
        self._types = {field.name: field.dataType for field in schema}
        self._schema = arrow_schema(schema)
        self._read_type = pa.struct(list(text_for_times(self._schema)))
        self._has_all = set(TRACE.names) <= self._types.keys()

    def read(self, texts: Iterable[bytes | str], file: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches for lines (bytes) of one file and sentences about damage (str)."""
        for chunk in _chunks(texts):
            yield from self._chunk_batches(chunk, file)

    def _chunk_batches(self, texts: Sequence[bytes | str], file: str) -> Iterator[pa.RecordBatch]:
        """Parse lines together if possible; if a line prevents it, split them so that most still are."""
        lines = [text for text in texts if isinstance(text, bytes)] if self._has_all else []
        if len(lines) < len(texts):
            yield from self._batches(texts, file)
        elif (table := parse_block(b"\n".join([*(line.rstrip(b"\n") for line in lines), b""]))) is not None:
            yield from self._with_file(table, file)
        elif len(lines) < _FEW_LINES:
            yield from self._batches(lines, file)
        else:
            half = len(lines) // 2
            yield from self._chunk_batches(lines[:half], file)
            yield from self._chunk_batches(lines[half:], file)

    def read_block(self, block: bytes, file: str) -> Iterator[pa.RecordBatch]:
        """Yield the batches for a block of whole lines of one file."""
        if self._has_all and (table := parse_block(block)) is not None:
            yield from self._with_file(table, file)
        else:
            yield from self.read((line for line in block.split(b"\n") if line and not line.isspace()), file)

    def _with_file(self, table: pa.Table, file: str) -> Iterator[pa.RecordBatch]:
        for name in ("file", "corrupt", "damage"):
            value = pa.scalar(file if name == "file" else None, self._schema.field(name).type)
            table = table.append_column(name, pa.repeat(value, table.num_rows))
        yield from table.select(self._schema.names).to_batches()

    def _batches(self, texts: Sequence[bytes | str], file: str) -> Iterator[pa.RecordBatch]:
        rows = [row for text in texts if (row := self._parse_row(text)) is not None]
        for row in rows:
            row["file"] = file
        try:
            yield self._build_batch(rows)
        except (pa.ArrowException, OverflowError):  # an invalid date, a number out of range
            if len(texts) > 1:
                for text in texts:
                    yield from self._batches([text], file)
            elif isinstance(text := texts[0], bytes) and (
                row := self._bad_row("corrupt", text.decode(errors="replace"))
            ):
                yield self._build_batch([row | {"file": file}])

    def _parse_row(self, text: bytes | str) -> dict[str, Any] | None:
        if isinstance(text, str):
            return self._bad_row("damage", text)
        try:
            if parse_line(text).v > FORMAT:
                return self._bad_row("corrupt", text.decode(errors="replace"))
            row: dict[str, Any] = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._bad_row("corrupt", text.decode(errors="replace"))
        for name, value in row.items():
            if isinstance(value, dict | list) and name in self._types:
                row[name] = _fit_value(value, self._types[name])
        return row

    def _bad_row(self, column: str, text: str) -> dict[str, Any] | None:
        return {column: text[:MAX_CORRUPT]} if column in self._types else None

    def _build_batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return pa.RecordBatch.from_struct_array(pa.array(rows, self._read_type)).cast(self._schema)


def text_batches(texts: Iterable[bytes | str], file: str) -> Iterator[pa.RecordBatch]:
    """Yield the texts unchanged as TEXT, to be parsed with `kproxy.spark.ingest.files.parse_texts`."""
    schema = arrow_schema(TEXT)
    for chunk in _chunks(texts):
        values = [(text.encode() if isinstance(text, str) else text).rstrip(b"\n") for text in chunk]
        yield pa.RecordBatch.from_arrays([pa.array(values, pa.binary()), pa.repeat(file, len(values))], schema=schema)


def _chunks(texts: Iterable[bytes | str]) -> Iterator[list[bytes | str]]:
    chunk: list[bytes | str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if len(chunk) == _CHUNK_LINES or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _fit_value(value: Any, data_type: T.DataType) -> Any:
    """Convert a JSON value for its column: values without fixed fields become text."""
    if isinstance(data_type, T.StringType):
        return value if value is None or isinstance(value, str) else encode_json(value).decode()
    if isinstance(data_type, T.ArrayType):
        return [_fit_value(element, data_type.elementType) for element in value] if value else value
    if isinstance(data_type, T.StructType) and value is not None:
        return {field.name: _fit_value(value.get(field.name), field.dataType) for field in data_type}
    return value
