"""The schema matches the definition of a trace, and reads every line of all trace formats up to now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from kproxy.spark.ingest.decode import CaptureOptions
from kproxy.spark.ingest.files import read_files
from kproxy.spark.ingest.inputs import find_files
from kproxy.spark.ingest.schema import TRACE
from kproxy.trace.encoding import json_schema
from tests.kproxy.spark.files import TRACE_1, lines_in, parse_lines, write

_TYPES = {
    "string": T.StringType(), "integer": T.LongType(), "number": T.DoubleType(), "boolean": T.BooleanType(),
    "object": T.StringType(),
}  # fmt: skip


def _spark_type(schema: dict[str, Any], definitions: dict[str, Any], inside: tuple[str, ...] = ()) -> T.DataType:
    """Return the Spark type of a JSON Schema."""
    [schema] = [alternative for alternative in schema.get("anyOf", [schema]) if alternative.get("type") != "null"]
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        fields = definitions[name]["properties"]
        if f"#/$defs/{name}" in str(fields):
            return T.StringType()  # the type is recursive
        return T.StructType([T.StructField(field, _spark_type(inner, definitions)) for field, inner in fields.items()])
    if schema.get("type") == "array":
        return T.ArrayType(_spark_type(schema.get("items") or schema["prefixItems"][0], definitions))
    return T.TimestampType() if "pattern" in schema else _TYPES[schema["type"]]


def test_schema_has_exactly_the_columns_of_all_line_types() -> None:
    definitions = json_schema()["$defs"]
    expected: dict[str, T.DataType] = {}
    for name, definition in definitions.items():
        if name.endswith("Line"):
            for column, schema in definition["properties"].items():
                expected[column] = T.StringType() if column == "kind" else _spark_type(schema, definitions)
    assert {field.name: field.dataType for field in TRACE} == expected


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz", "trace.jsonl.zst"])
def test_sample_trace_is_read_completely(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, TRACE_1.read_bytes())
    rows = read_files(spark, find_files(spark, [str(path)]), CaptureOptions())
    assert lines_in(rows) == parse_lines(TRACE_1.read_text().splitlines())
    assert rows.where("corrupt is not null").count() == 0


FUTURE_LINES = b"""
{"kind":"gap","v":1,"ts":"2026-11-21T05:00:00.000000Z","connection_id":"a-1","direction":"both","bytes":1,"reason":"x",
 "shard":7,"nested":{"deep":[1,{"a":null}]},"topics":[{"topic":"t","tier":"cold"}]}
{"kind":"close","v":1,"ts":"2026-11-21T05:00:00.000000Z","connection_id":"a-1","client":"c:1","server":"s:1"}
{"kind":"quota","v":1,"ts":"2026-11-21T05:00:00.000000Z","connection_id":"a-1"}
{"kind":"gap","v":2,"ts":"2026-11-21T05:00:00.000000Z","connection_id":"a-1","direction":"both","bytes":1,"reason":"x"}
{"kind":"gap","v":1,"ts":"2026-11-21T05:00:00.000000Z","connection_id":"a-1","direction":"both","reason":"no bytes"}
""".replace(b"\n ", b" ")


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
def test_new_columns_are_ignored_and_unknown_lines_kept_as_corrupt(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    path = write(tmp_path / name, FUTURE_LINES)
    rows = read_files(spark, find_files(spark, [str(path)]), CaptureOptions()).cache()
    gap, close = rows.where("corrupt is null").orderBy("kind", ascending=False).collect()
    assert (gap["kind"], gap["bytes"], gap["reason"]) == ("gap", 1, "x")
    assert (close["kind"], close["requests"], close["topics"]) == ("close", None, None)
    corrupt_rows = rows.where("corrupt is not null").collect()
    assert sorted(row["corrupt"][:22] for row in corrupt_rows) == [
        '{"kind":"gap","v":1,"t', '{"kind":"gap","v":2,"t', '{"kind":"quota","v":1,',
    ]  # fmt: skip
    assert all(row["kind"] is None and row["ts"] is None and row["file"].endswith(name) for row in corrupt_rows)
