"""``spark.read.format("kproxy")``: captures and traces as a data source, once it is registered.

In a notebook::

    from kproxy.spark.source import KproxyDataSource

    spark.dataSource.register(KproxyDataSource)
    lines = spark.read.format("kproxy").load("captures/*.pcap")

Python workers cannot access Hadoop file systems, so paths are local. On a cluster, they must exist on all machines.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kproxy.capture.inputs import NO_INPUT, input_files
from kproxy.spark.ingest.arrow import BatchReader, text_batches
from kproxy.spark.ingest.decode import CaptureOptions, decode_file, local_path, uri_of
from kproxy.spark.ingest.hours import hour_of, next_hour
from kproxy.spark.ingest.open_traces import read_between, sizes_by_path
from kproxy.spark.ingest.schema import ROW, TEXT

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit


class KproxyDataSource(DataSource):
    """The lines of captures and traces at a path or a glob, as `kproxy dissect --json` writes them, as ROW.

    Options: `port` (Kafka's ports, comma-separated; without it, Kafka is found by content), `keylog` (TLS key log). The
    schema is ROW, or a subset of its columns. A stream follows the traces in a directory: new lines as they are
    written, and existing lines one hour at a time; with the option `since` (ISO 8601), hours that ended before are
    skipped. The schema of a stream may also be TEXT.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kproxy"

    def schema(self) -> StructType:
        """Return the available columns, used unless the reader specifies fewer."""
        return ROW

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of whole files."""
        ports = frozenset(int(port) for port in self.options.get("port", "").split(",") if port.strip())
        return _Reader(_check_schema(schema), self._path(), CaptureOptions(ports, self.options.get("keylog")))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return a reader of traces that are being written."""
        path = Path(self._path())
        if not path.is_dir():
            raise ValueError(f"{path}: a stream needs a directory of traces")
        since = self.options.get("since")
        checked_schema = schema if schema == TEXT else _check_schema(schema)
        return _StreamReader(checked_schema, str(path.absolute()), datetime.fromisoformat(since) if since else None)

    def _path(self) -> str:
        path = self.options.get("path")
        if not path:
            raise ValueError("no path: pass files, a directory or a glob to load(PATH)")
        if urlsplit(path).scheme not in ("", "file"):
            raise ValueError(
                f"{path}: only local files can be read: run kproxy analyze convert on others, then spark.read"
            )
        return str(local_path(path)) if path.startswith("file:") else path


def _check_schema(schema: StructType) -> StructType:
    for field in schema:
        column_type = ROW[field.name].dataType if field.name in ROW.names else None
        if field.dataType != column_type:
            problem = f"is {column_type.simpleString()}" if column_type else "is not a column of a trace"
            raise ValueError(
                f"{field.name} {field.dataType.simpleString()}: it {problem} (kproxy.spark.ingest.schema.ROW)"
            )
    return schema


class _File(InputPartition):
    """A file, or the byte range from `start` to `end` in a growing file."""

    def __init__(self, uri: str, start: int = 0, end: int | None = None) -> None:
        super().__init__(uri)
        self.uri, self.start, self.end = uri, start, end


class _Reader(DataSourceReader):
    """Reads one file per task: a file's connections share state, so it cannot be split."""

    def __init__(self, schema: StructType, path: str, options: CaptureOptions) -> None:
        self._schema, self._path, self._options = schema, path, options

    def partitions(self) -> Sequence[InputPartition]:
        paths = map(Path, sorted(glob.glob(self._path)))  # noqa: PTH207  # it may be absolute
        files = [_File(uri_of(file)) for path in paths for file in (input_files(path) if path.is_dir() else [path])]
        if not files:
            raise ValueError(f"{self._path}: {NO_INPUT} there")
        return files

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _File)
        yield from BatchReader(self._schema).read(decode_file(partition.uri, self._options), partition.uri)


class _StreamReader(DataSourceStreamReader):
    """Reads growing traces; an offset is the number of bytes read from each trace in the directory."""

    def __init__(self, schema: StructType, directory: str, since: datetime | None) -> None:
        self._schema, self._directory = schema, directory
        self._first_hour = since and since - timedelta(hours=1)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        from pyspark.sql.streaming.datasource import ReadMaxFiles  # only Spark 4.2 and later have and use it

        return ReadMaxFiles(1)  # not all at once

    def latestOffset(self, start: dict[str, int] | None = None, limit: object = None) -> dict[str, int]:  # noqa: N802
        sizes = sizes_by_path(self._directory)
        if self._first_hour is not None:
            sizes = {
                name: size for name, size in sizes.items() if (hour_of(name) or self._first_hour) >= self._first_hour
            }
        if start is None or type(limit).__name__ == "ReadAllAvailable":
            return sizes
        return next_hour(start, sizes)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        ranges = ((name, start.get(name, 0), size) for name, size in end.items())
        return [
            _File(uri_of(Path(self._directory, name)), range_start, range_end)
            for name, range_start, range_end in ranges
            if range_end > range_start
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _File)
        assert partition.end is not None
        texts = read_between(partition.uri, partition.start, partition.end)
        batches = text_batches if self._schema == TEXT else BatchReader(self._schema).read
        yield from batches(texts, partition.uri)
