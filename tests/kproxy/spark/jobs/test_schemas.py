from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from kproxy.spark.derived.record_values import record_values
from kproxy.spark.jobs.schemas import schemas
from kproxy.trace.lines import RequestLine, ResponseLine, TopicEntry
from tests.kproxy.filters import test_record_fields
from tests.kproxy.spark.reference import assert_rows
from tests.kproxy.spark.sample_lines import request, response, table

KEY = {"format": "text", "data": "k", "guess": True}


def avro(number: int, **fields: Any) -> dict[str, Any]:
    return {"format": "avro", "data": {"id": number}, "schema": {"id": number}, "subject": "orders-value", **fields}


def produce(*values: Any, client_id: str = "app", topic: dict[str, str] | None = None) -> RequestLine:
    records = [{"offset": 0, "key": KEY, "value": value} for value in values]
    partition = {"index": 0, "records": [{"base_offset": 0, "records": records}]}
    body = {"acks": 1, "topic_data": [(topic or {"name": "orders"}) | {"partition_data": [partition]}]}
    return request("Produce", body=body, client_id=client_id, topics=[TopicEntry("carts", "Y2FydHM")])


def fetch_response() -> ResponseLine:
    batches = [{"records": [{"key": None, "value": avro(9), "headers": [{"key": "trace", "value": KEY}]}]}]
    responses = [{"topic_id": "Y2FydHM", "partitions": [{"partition_index": 0, "records": batches}, {"records": None}]}]
    return response("Fetch", body={"responses": responses}, topics=[TopicEntry("carts", "Y2FydHM")])


def test_schemas_are_counted_by_topic_and_producer(spark: SparkSession) -> None:
    lines = table(
        spark,
        produce(avro(17), avro(17, problem="leftover bytes"), None, {"format": "json", "data": [1]}),
        produce(avro(17), client_id="other"),
        produce({"format": "protobuf", "data": {}, "schema": {"guid": "89a"}}, topic={"topic_id": "Y2FydHM"}),
        fetch_response(),
        request("Produce", body=test_record_fields.UNDECODED["body"]),
        request("Produce"),
    )
    orders_values = ("orders", "value", "app")
    assert_rows(
        schemas(lines),
        [
            ("carts", "key", "app", "text", None, None, None, 1, 0, None),
            ("carts", "value", "app", "protobuf", "guid", "89a", None, 1, 0, None),
            ("orders", "key", "app", "text", None, None, None, 4, 0, None),
            ("orders", "key", "other", "text", None, None, None, 1, 0, None),
            (*orders_values, "avro", "id", "17", "orders-value", 2, 1, "leftover bytes"),
            (*orders_values, "json", None, None, None, 1, 0, None),
            (*orders_values, "null", None, None, None, 1, 0, None),
            ("orders", "value", "other", "avro", "id", "17", "orders-value", 1, 0, None),
        ],
    )


def test_record_values_are_returned_as_json(spark: SparkSession) -> None:
    rows = record_values(
        table(spark, fetch_response(), produce({"format": "json", "data": [1, {"a": None}]}))
    ).collect()
    columns = ("client", "topic", "part", "header", "format", "data", "schema_form", "schema_id", "is_guess")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("app", "carts", "key", None, "null", None, None, None, False),
        ("app", "carts", "value", None, "avro", '{"id":9}', "id", "9", False),
        ("app", "carts", "header", "trace", "text", "k", None, None, True),
        ("app", "orders", "key", None, "text", "k", None, None, True),
        ("app", "orders", "value", None, "json", '[1,{"a":null}]', None, None, False),
    ]


def test_trace_without_decoded_records_has_no_schemas(spark: SparkSession) -> None:
    undecoded = request("Produce", body=test_record_fields.UNDECODED["body"])
    assert schemas(table(spark, undecoded, request("Fetch"))).collect() == []
