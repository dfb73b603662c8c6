"""R027: values without a schema id on topics whose values have one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.records.schema_ids import HEX_PREFIX
from kproxy.spark.columns import array_or_empty, client_name
from kproxy.spark.rules import finding_rows, message, occurrence_columns, rule

_MIN_RECORDS = 10
_BODY = (
    "topic_data array<struct<name string, topic_id string, partition_data array<struct<records array<struct<"
    "records array<struct<value string>>>>>>>>"
)


@rule("R027", hint="use the serializer of the topic's other producers, or a separate topic")
def schema_id_missing(lines: DataFrame) -> DataFrame:
    """Find clients that write values without a schema registry prefix (5 bytes) to topics where most values have one.

    Needs traces with ``--detail raw``, which contain records. Tombstones have no value and do not count.
    """
    produce_requests = lines.where(
        (F.col("kind") == "request") & (F.col("api") == "Produce") & F.col("body").isNotNull()
    )
    topic, values = F.col("entry"), F.col("values")
    totals = Window.partitionBy("cluster", "topic")
    rows = (
        produce_requests.withColumn("entry", F.explode(F.from_json("body", _BODY)["topic_data"])) .select("cluster",
                                    "ts", "connection_id", F.col("server").alias("broker"),
                                    client_name().alias("client"),
                                    F.coalesce(topic["name"], _topic_name(topic["topic_id"]),
                                               topic["topic_id"]).alias("topic"), _record_values(topic).alias("values"),
                                    ) .withColumns({"right": F.size(F.filter(values, _has_id)),
                                    "wrong": F.size(F.filter(values, lambda element: ~_has_id(element))),
                                    }) .groupBy("cluster", "client", "broker", "topic",
                                    (F.col("wrong") > 0).alias("lacking")) .agg(*occurrence_columns(),
                                    F.sum("right").alias("right"),
                                    F.sum("wrong").alias("wrong")) .withColumns({"have": F.sum("right").over(totals),
                                    "lack": F.sum("wrong").over(totals)})
        .where(F.col("lacking") & (F.col("have") >= _MIN_RECORDS) & (F.col("have") > F.col("lack")))
    )  # fmt: skip
    return finding_rows(
        rows,
        message=message("client %s wrote %d values without a schema id to %s, where %d of %d have one", "client",
                     "wrong", "topic", "have", F.col("have") + F.col("lack")),
        expected=F.lit("a zero byte, then a 4-byte schema id"),
    )  # fmt: skip


def _record_values(topic: Column) -> Column:
    """Return the base64 values of the records in an entry of `topic_data`."""
    batches = F.flatten(F.transform(topic["partition_data"], lambda partition: array_or_empty(partition["records"])))
    records = F.flatten(F.transform(batches, lambda batch: array_or_empty(batch["records"])))
    return F.array_compact(F.transform(records, lambda record: record["value"]))


def _has_id(value: Column) -> Column:
    first_bytes = F.hex(F.try_to_binary(F.substring(value, 1, 8), F.lit("base64")))
    return F.coalesce(F.rlike(first_bytes, F.lit(HEX_PREFIX)), F.lit(False))


def _topic_name(topic_id: Column) -> Column:
    """Return the topic name that the line has for a topic id."""
    return F.get(F.filter("topics", lambda entry: entry["topic_id"] == topic_id), F.lit(0))["topic"]
