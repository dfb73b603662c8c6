"""Decoded keys, values and headers of records, one per row, from traces that were written with `--payloads`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import array_or_empty, client_name
from kproxy.trace.record_values import WITHHELD

#: Objects where the schema has a string stay JSON text.
_BATCHES = (
    "array<struct<records array<struct<key string, value string, headers array<struct<key string, value string>>>>>>"
)
_BODY = (
    f"topic_data array<struct<name string, topic_id string, partition_data array<struct<records {_BATCHES}>>>>, "
    f"responses array<struct<topic string, topic_id string, partitions array<struct<records {_BATCHES}>>>>"
)


def record_values(lines: DataFrame) -> DataFrame:
    """Return the decoded keys, values and headers of the records in Produce requests and fetch responses.

    Args:
        lines: Rows of TABLE; bodies without decoded records give no rows.

    Returns:
        The columns of lines that identify the frame (`ts`, `connection_id`, `kind`, `api`, and `cluster` if lines have
        it), its `client` (its host if it has no client id) and `topic`; `part` (key, value or header), the name of the
        `header`, and the members that docs/payloads.md describes: `format` (``null`` for tombstones and other nulls),
        `data` as text (JSON if it is an object or a list), `schema_form` (id, guid, ...) and `schema_id`, `subject`,
        `type`, `is_guess`, `problem`.
    """
    identifying_columns = [name for name in ("cluster", "ts", "connection_id", "kind", "api") if name in lines.columns]
    decoded = lines.where(F.col("body").contains('"format":')).select(
        *identifying_columns, client_name().alias("client"), "topics", F.from_json("body", _BODY).alias("body")
    )
    entries = F.concat(
        array_or_empty(F.transform("body.topic_data", lambda entry: _topic_entry(entry, "name", "partition_data"))),
        array_or_empty(F.transform("body.responses", lambda entry: _topic_entry(entry, "topic", "partitions"))),
    )
    records = decoded.select(*identifying_columns, "client", "topics", F.explode(entries).alias("entry")).select(
        *identifying_columns,
        "client",
        F.coalesce("entry.name", _topic_name(F.col("entry.id")), "entry.id").alias("topic"),
        F.explode("entry.records").alias("record"),
    )
    parts = records.select(*identifying_columns, "client", "topic", F.inline(_record_parts(F.col("record"))))
    value = F.col("value")
    schema = F.from_json(F.get_json_object(value, "$.schema"), "map<string, string>")
    return parts.select(
        *identifying_columns,
        "client",
        "topic",
        "part",
        "header",
        F.coalesce(_json_member("format"), F.lit("null")).alias("format"),
        _json_member("data").alias("data"),
        F.get(F.map_keys(schema), F.lit(0)).alias("schema_form"),
        F.get(F.map_values(schema), F.lit(0)).alias("schema_id"),
        _json_member("subject").alias("subject"),
        _json_member("type").alias("type"),
        F.coalesce(_json_member("guess") == "true", F.lit(False)).alias("is_guess"),
        _json_member("problem").alias("problem"),
    )


def _topic_entry(entry: Column, name_key: str, partitions_key: str) -> Column:
    """Return a topic of the body as a struct of its name, its id, and its records."""
    batches = F.flatten(F.array_compact(F.transform(entry[partitions_key], lambda partition: partition["records"])))
    records = F.flatten(F.array_compact(F.transform(batches, lambda batch: batch["records"])))
    return F.struct(entry[name_key].alias("name"), entry["topic_id"].alias("id"), records.alias("records"))


def _record_parts(record: Column) -> Column:
    """Return the parts of a record that are decoded or null; no parts if none is decoded."""

    def part_struct(name: str, header: Column, value: Column) -> Column:
        return F.struct(F.lit(name).alias("part"), header.alias("header"), value.alias("value"))

    null = F.lit(None).cast("string")
    header_parts = F.transform(record["headers"], lambda header: part_struct("header", header["key"], header["value"]))
    all_parts = F.concat(
        F.array(part_struct("key", null, record["key"]), part_struct("value", null, record["value"])),
        array_or_empty(header_parts),
    )
    decoded_parts = F.filter(all_parts, lambda part: part["value"].isNull() | _is_decoded(part["value"]))
    return F.when(F.exists(decoded_parts, lambda part: part["value"].isNotNull()), decoded_parts)


def _is_decoded(value: Column) -> Column:
    return F.get_json_object(value, "$.format") != WITHHELD


def _json_member(name: str) -> Column:
    return F.get_json_object(F.col("value"), f"$.{name}")


def _topic_name(topic_id: Column) -> Column:
    """Return the topic name that the line has for a topic id."""
    return F.get(F.filter("topics", lambda entry: entry["topic_id"] == topic_id), F.lit(0))["topic"]
