"""Errors in responses: by API, client, broker, principal and topic."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name, is_decoded, maybe, place_in, topic_name, view
from kproxy.spark.derived.topic_errors import placed_errors, topic_place
from kproxy.spark.jobs import job

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
        - value (string): its name; of a client without a client id its host. A client that has not logged in has no
          principal
        - error (string): the name of the error
        - code (bigint): its code
        - responses (bigint, responses): responses with it, however many times each
        - share (double, 0 to 1): their share of all decoded responses, or of those with the topic
        - first_at (timestamp, UTC): the first of them
        - last_at (timestamp, UTC): the last of them
    """
    found = F.transform("errors", _error)
    placed = placed_errors()

    def of_topic(entry: Column, at: Column) -> Column:
        here = F.filter(placed, lambda error: topic_place(error) == at)
        return view("topic", topic_name(entry), errors=maybe(F.transform(here, _error)))

    # Most responses have none: it takes a fifth of the time not to look for each topic's.
    none = F.filter(maybe(F.transform("errors", _error)), lambda _: F.lit(False))
    without_errors = F.transform("topics", lambda entry: view("topic", topic_name(entry), errors=none))
    views = F.concat(
        F.array(
            view("api", F.col("api"), errors=maybe(found)),
            view("client", client_name(), errors=maybe(found)),
            view("broker", F.col("server"), errors=maybe(found)),
            view("principal", F.col("principal"), errors=maybe(found)),
        ),
        maybe(F.when(F.size("errors") > 0, F.transform("topics", of_topic)).otherwise(without_errors)),
    )
    # The null added to a response's errors counts the response itself.
    each = F.explode(F.array_append(F.array_distinct("view.errors"), F.lit(None))).alias("error")
    # Few responses differ in more than their time: they are counted before they are multiplied.
    alike = (
        lines.where(is_decoded())
        .groupBy("cluster", views.alias("views"))
        .agg(F.count("*").alias("responses"), F.min("ts").alias("first_at"), F.max("ts").alias("last_at"))
    )
    times = ("responses", "first_at", "last_at")
    counted = (
        alike.select("cluster", *times, F.explode("views").alias("view"))
        .where(F.col("view.value").isNotNull())
        .select("cluster", *times, "view.by", "view.value", each)
        .groupBy("cluster", "by", "value", "error")
        .agg(
            F.sum("responses").alias("responses"),
            F.min("first_at").alias("first_at"),
            F.max("last_at").alias("last_at"),
        )
    )
    total = F.max("responses").over(Window.partitionBy("cluster", "by", "value"))
    table = counted.withColumn("share", F.col("responses") / total).where(F.col("error").isNotNull())
    return table.select(
        "cluster",
        "by",
        "value",
        F.col("error.name").alias("error"),
        F.col("error.code").alias("code"),
        "responses",
        "share",
        "first_at",
        "last_at",
    ).orderBy(place_in(_ORDER, "by"), F.desc("responses"), "value", "error", "code", "cluster")


def _error(entry: Column) -> Column:
    return F.struct(entry["code"].alias("code"), entry["name"].alias("name"))
