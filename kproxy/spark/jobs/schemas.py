"""The schemas that producers use on each topic."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.derived.record_values import record_values
from kproxy.spark.jobs import job


@job("formats, schemas and subjects of the keys and values that producers write to each topic")
def schemas(lines: DataFrame) -> DataFrame:
    """Report the schemas with which producers write, so that a producer with a different schema stands out.

    Args:
        lines: Rows of TABLE; uses kind, api, client_id, client, topics and body of Produce requests. Only traces that
            were written with ``--payloads`` have decoded records; for other traces, the table is empty.

    Returns:
        One row per topic, part, client, format, schema and subject. By topic and part, most records first.

        - topic (string): the topic
        - part (string): key or value
        - client (string): the client id, or the host if there is none
        - format (string): the format; null for missing keys and tombstones
        - schema_form (string): what names the schema in the record: id, guid, ...; null if nothing does
        - schema_id (string): the schema's id in the record
        - subject (string): the subject of the schema, if the source of schemas knows it
        - records (bigint, records): keys or values
        - problems (bigint, records): those that do not decode completely
        - problem (string): why one of them does not
    """
    written_values = record_values(lines.where((F.col("kind") == "request") & (F.col("api") == "Produce")))
    grouped = (
        written_values.where(F.col("part") != "header")
        .groupBy("cluster", "topic", "part", "client", "format", "schema_form", "schema_id", "subject")
        .agg(
            F.count("*").alias("records"),
            F.count("problem").alias("problems"),
            F.min("problem").alias("problem"),
        )
    )
    order = ("client", "format", "schema_form", "schema_id", "subject", "cluster")
    return grouped.orderBy("topic", "part", F.desc("records"), *order)
