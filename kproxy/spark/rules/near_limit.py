"""M008: batches close to the size limit."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dissectors.schemas.codes import Error
from kproxy.spark.columns import client_name, topic_name
from kproxy.spark.rules import finding_rows, message, occurrence_columns, rule

#: The errors for a batch larger than max.message.bytes.
_TOO_LARGE = (Error.MESSAGE_TOO_LARGE.name, Error.RECORD_LIST_TOO_LARGE.name)
_NEAR_SHARE = 0.8
_ERROR_PATH = r"\[([0-9]+)\][^\[]*\[([0-9]+)\]"


@rule("M008", hint="raise max.message.bytes of the topic, or lower max.request.size and batch.size of the client")
def near_limit(lines: DataFrame) -> DataFrame:
    """Find accepted batches larger than four fifths of the smallest batch rejected for its size on the same topic.

    A partition has one batch in a Produce request; the limit is less than the size of the smallest rejected batch.
    """
    responses = lines.where(
        (F.col("kind") == "response") & (F.col("api") == "Produce") & F.col("request_ts").isNotNull()
    )
    limits = (
        responses.withColumn("error", F.explode("errors"))
        .where(F.col("error.name").isin(*_TOO_LARGE))
        .withColumn("topic", F.get("topics", F.regexp_extract("error.path", _ERROR_PATH, 1).cast("int")))
        .groupBy("cluster", "server", topic_name(F.col("topic")).alias("topic"))
        .agg(
            F.min(F.get("topic.partition_bytes", F.regexp_extract("error.path", _ERROR_PATH, 2).cast("int"))).alias(
                "limit"
            )
        )
        .where(F.col("limit") > 0)
    )
    accepted = responses.where(F.col("errors").isNull()).withColumn("entry", F.explode("topics")).select(
        "cluster", "ts", "connection_id", "server", client_name().alias("client"),
        topic_name(F.col("entry")).alias("topic"), F.explode("entry.partition_bytes").alias("size"),
    )  # fmt: skip
    rows = (
        limits.join(accepted, ["cluster", "server", "topic"])
        .where((F.col("size") > _NEAR_SHARE * F.col("limit")) & (F.col("size") < F.col("limit")))
        .groupBy("cluster", "client", F.col("server").alias("broker"), "topic", "limit")
        .agg(*occurrence_columns(), F.max("size").alias("most"))
    )
    return finding_rows(
        rows,
        message=message("client %s sent batches of up to %d bytes to %s, where one of %d was too large", "client",
                     "most", "topic", "limit"),
        expected=message("under %d bytes", F.ceil(_NEAR_SHARE * F.col("limit"))),
        got=message("%d bytes", "most"),
    )  # fmt: skip
