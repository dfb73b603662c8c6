"""The data source reads captures and traces with `spark.read`, and growing traces with `spark.readStream`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from kproxy.cli import main
from kproxy.spark.ingest.decode import local_path
from kproxy.spark.ingest.open_traces import sizes_by_path
from kproxy.spark.ingest.schema import ROW
from kproxy.spark.source import KproxyDataSource
from tests.kproxy.spark.files import CAPTURES, REPOSITORY, TRACE_1, line_of, parse_lines, trace_bytes, write
from tests.kproxy.spark.sample_lines import request


@pytest.fixture(autouse=True, scope="module")
def _register_source(spark: SparkSession) -> None:
    spark.dataSource.register(KproxyDataSource)


@pytest.mark.parametrize("folder", [CAPTURES, REPOSITORY / "tests/data/pcap", REPOSITORY / "tests/data/bugs"])
def test_captures_yield_the_rows_that_dissect_writes(
    spark: SparkSession, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    rows = spark.read.format("kproxy").load(f"{folder}/*.pcap.gz")
    files = sorted(folder.glob("*.pcap.gz"))
    assert rows.rdd.getNumPartitions() == len(files)  # one task per file
    lines_by_file = defaultdict(list)
    for row in rows.where("corrupt is null").collect():
        line = line_of(row)
        lines_by_file[local_path(line.pop("file"))].append(line)
    for file in files:
        capfdbinary.readouterr()
        main(["dissect", "--json", str(file)])
        expected = [msgspec.json.decode(line) for line in capfdbinary.readouterr().out.splitlines()]
        assert lines_by_file[file] == expected, file.name


def test_capture_is_read_with_ports_and_key_log(spark: SparkSession) -> None:
    capture = REPOSITORY / "tests/data/pcap/tls-kafka-python-4.3.1.pcap.gz"
    reader = spark.read.format("kproxy")
    assert reader.load(str(capture)).count() == 0
    decrypting_reader = reader.option("keylog", str(capture).replace(".pcap.gz", ".keys"))
    assert decrypting_reader.load(str(capture)).where("api = 'Metadata'").count() > 0
    assert decrypting_reader.option("port", "1, 2").load(str(capture)).count() == 0


def test_directory_is_read_with_selected_columns(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a" / "x.jsonl", TRACE_1.read_bytes() + b"no line\n")
    write(tmp_path / "b c.jsonl.gz", TRACE_1.read_bytes())
    (tmp_path / "d.pcap7.gz").write_bytes((CAPTURES / "metadata-retry-loop.pcap.gz").read_bytes())
    rows = spark.read.format("kproxy").load(str(tmp_path))
    assert rows.schema == ROW
    count = len(TRACE_1.read_bytes().splitlines())
    count_by_file = {Path(row["file"]).name: row["count"] for row in rows.groupBy("file").count().collect()}
    assert count_by_file.pop("d.pcap7.gz") > 20
    assert count_by_file == {"x.jsonl": count + 1, "b%20c.jsonl.gz": count}
    selected_columns = spark.read.format("kproxy").schema("api string, ts timestamp").load(f"file:{tmp_path}/a")
    assert selected_columns.count() == count  # the invalid line is omitted, because its column is not selected
    assert [row["ts"] for row in selected_columns.collect()] == [
        row["ts"] for row in rows.where("ts is not null").collect()
    ][:count]


@pytest.mark.parametrize(
    ("path", "schema", "message"),
    [
        ("/nothing/here", ROW, "/nothing/here: no trace"),
        ("s3a://bucket/x", ROW, "s3a://bucket/x: only local files can be read"),
        (str(TRACE_1), "api long", "api bigint: it is string"),
        (str(TRACE_1), "colour string", "colour string: it is not a column of a trace"),
        (None, ROW, "no path: pass files"),
    ],
)
def test_unreadable_paths_and_schemas_are_rejected(
    spark: SparkSession, path: str | None, schema: str, message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.read.format("kproxy").schema(schema).load(path).collect()


@pytest.fixture
def stream_folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Yield a directory of traces to stream, and stop the queries afterwards."""
    folder = tmp_path / "traces"
    folder.mkdir()
    yield folder
    for query in spark.streams.active:
        query.stop()


def start_stream(spark: SparkSession, folder: Path) -> StreamingQuery:
    lines = (
        spark.readStream.format("kproxy").load(str(folder)).where("corrupt is null").select("connection_id", "offset")
    )
    writer = lines.writeStream.format("parquet").option("checkpointLocation", f"{folder}.checkpoint")
    return writer.start(f"{folder}.out")


def streamed_offsets(spark: SparkSession, query: StreamingQuery, folder: Path) -> list[int]:
    query.processAllAvailable()
    return sorted(row["offset"] for row in spark.read.parquet(f"{folder}.out").collect())


def test_stream_yields_every_line_once_while_traces_grow(spark: SparkSession, stream_folder: Path) -> None:
    lines = [trace_bytes(request(offset=number)) for number in range(20)]
    hour = stream_folder / "date=2026-11-21" / "hour=05"
    unfinished_path = write(hour / ".a.jsonl.part", b"".join(lines[:3]) + lines[3][:20])
    query = start_stream(spark, stream_folder)
    assert streamed_offsets(spark, query, stream_folder) == [0, 1, 2]  # the fourth line is still incomplete
    unfinished_path.write_bytes(b"".join(lines[:6]))
    write(hour / "b.jsonl.zst", b"".join(lines[10:13]))
    write(hour / ".c.jsonl.zst.part", b"".join(lines[13:15]))  # compressed files are read only once they are complete
    assert streamed_offsets(spark, query, stream_folder) == [0, 1, 2, 3, 4, 5, 10, 11, 12]
    unfinished_path.rename(hour / "a.jsonl")
    (hour / ".c.jsonl.zst.part").rename(hour / "c.jsonl.zst")
    assert streamed_offsets(spark, query, stream_folder) == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14]
    query.stop()
    write(
        stream_folder / "date=2026-11-21" / "hour=06" / "d.jsonl", b"".join(lines[15:18]) + lines[18][:30]
    )  # this line stays incomplete
    query = start_stream(spark, stream_folder)  # the query resumes from its checkpoint
    assert streamed_offsets(spark, query, stream_folder) == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17]


def test_stream_requires_a_directory(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="a stream needs a directory of traces"):
        spark.readStream.format("kproxy").load(str(tmp_path / "nothing")).writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        ).start().processAllAvailable()


def test_growing_trace_is_complete_up_to_its_last_newline(tmp_path: Path) -> None:
    write(tmp_path / "x" / ".a.jsonl.part", b"a" * 100_000 + b"\n" + b"b" * 200_000)
    write(tmp_path / ".b.jsonl.part", b"b" * 200_000)
    write(tmp_path / "c.jsonl", b"torn")
    write(tmp_path / ".d.jsonl.zst.part", b"d")
    write(tmp_path / "e.pcap", b"e")
    assert sizes_by_path(str(tmp_path)) == {"x/a.jsonl": 100_001, "c.jsonl": 4}


def test_count_without_columns_counts_all_rows(spark: SparkSession) -> None:
    rows = spark.read.format("kproxy").load(str(TRACE_1))
    assert rows.select(F.count("*")).first()[0] == len(parse_lines(TRACE_1.read_text().splitlines()))
