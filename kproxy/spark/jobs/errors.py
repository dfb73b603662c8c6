"""Errors in responses: by API, client, broker, principal and topic."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kproxy.spark.columns import array_or_empty, client_name, computed_once, is_decoded, position_in, topic_name, view
from kproxy.spark.derived.topic_errors import errors_about_topics, topic_index
from kproxy.spark.jobs import job

#: Separates the names of topics.
_SEPARATOR = "\0"
_ERRORS = "array<struct<code bigint, name string, path string>>"
_ORDER = ("api", "client", "broker", "principal", "topic")


@job("errors by API, client, broker, principal and topic, and their share of the responses")
def errors(lines: DataFrame) -> DataFrame:
    """Report the error codes in responses, and the number of responses with each.

    Args:
        lines: Rows of TABLE; uses kind, ts, api, client_id, client, server, principal, topics, errors and
            not_decoded of responses.

    Returns:
        One row for each API, client, broker, principal and topic, and each of its errors. A topic has the errors in its
        entry of the response; in a Produce response for several topics only if all of them have errors, because the
        order may differ from the request's. Sorted by `by`, most responses first.

        - by (string): the kind of row: ``api``, ``client``, ``broker``, ``principal`` or ``topic``
        - value (string): its name; for a client without a client id, its host. A client that has not logged in has no
          principal
        - error (string): the name of the error
        - code (bigint): its code
        - responses (bigint, responses): responses with it, however many times each
        - share (double, 0 to 1): their share of all decoded responses, or of those with the topic
        - first_at (timestamp, UTC): the first of them
        - last_at (timestamp, UTC): the last of them
    """
    # Few responses differ in more than their time, so equal ones are counted before they are multiplied. They are
    # grouped by texts, because the embedded engine takes much longer to group by lists.
    distinct_responses = (
        lines.where(is_decoded()) .groupBy("cluster", "api", client_name().alias("client"), "server", "principal",
                    F.array_join(F.transform("topics", topic_name), _SEPARATOR, "").alias("topics"),
                    F.to_json("errors").alias("errors"), ) .agg(F.count("*").alias("responses"),
                    F.min("ts").alias("first_at"), F.max("ts").alias("last_at")) .withColumn("topics",
                    computed_once(F.split(F.nullif("topics", F.lit("")), _SEPARATOR))) .withColumn("errors",
                    computed_once(F.from_json("errors", _ERRORS)))
    )  # fmt: skip
    response_errors = F.array_distinct(F.transform("errors", lambda error: _error_struct(error, F.lit(None))))
    topic_errors = F.array_distinct(
        F.transform(errors_about_topics(), lambda error: _error_struct(error, topic_index(error)))
    )
    # The null added to a response's errors counts the response itself.
    all_errors = F.array_append(F.concat(array_or_empty(response_errors), array_or_empty(topic_errors)), F.lit(None))
    response_views = F.array(
        view("api", F.col("api")),
        view("client", F.col("client")),
        view("broker", F.col("server")),
        view("principal", F.col("principal")),
    )
    topic_views = array_or_empty(F.transform("topics", lambda topic: view("topic", F.nullif(topic, F.lit("")))))
    error_topic = F.col("error.topic")
    views = (
        F.when(F.col("error").isNull(), F.concat(response_views, topic_views))
        .when(error_topic.isNull(), response_views)
        .otherwise(F.array(view("topic", F.nullif(F.get("topics", error_topic), F.lit("")))))
    )
    sums = ("responses", "first_at", "last_at")
    counts = (
        distinct_responses.select("*", F.explode(all_errors).alias("error"))
        .select("cluster", *sums, "error.code", "error.name", F.explode(views).alias("view"))
        .where(F.col("view.value").isNotNull())
        .groupBy("cluster", "view.by", "view.value", "code", F.col("name").alias("error"))
        .agg(
            F.sum("responses").alias("responses"),
            F.min("first_at").alias("first_at"),
            F.max("last_at").alias("last_at"),
        )
    )
    total = F.max("responses").over(Window.partitionBy("cluster", "by", "value"))
    table = counts.withColumn("share", F.col("responses") / total).where(F.col("code").isNotNull())
    return table.select(
        "cluster",
        "by",
        "value",
        "error",
        "code",
        "responses",
        "share",
        "first_at",
        "last_at",
    ).orderBy(position_in(_ORDER, "by"), F.desc("responses"), "value", "error", "code", "cluster")


def _error_struct(entry: Column, topic: Column) -> Column:
    """Return an error in a response as a struct; `topic` is the index of the topic that it is about, or null."""
    return F.struct(entry["code"].alias("code"), entry["name"].alias("name"), topic.cast("int").alias("topic"))
