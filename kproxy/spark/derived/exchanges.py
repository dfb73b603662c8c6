"""Requests paired with their responses."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_KEY = ["cluster", "connection_id", "correlation_id", "asked_us"]


def exchanges(lines: DataFrame, wanted: Column, **more: Column) -> DataFrame:
    """Return the requests that match `wanted`, each with its response; without acks=0 requests, which have none.

    Args:
        lines: Rows of TABLE. Responses to requests before the first line, or not in the table, are dropped.
        wanted: A condition that holds for both request and response of an exchange, on columns that both have.
        more: Further columns of the request, by name. Their values must be orderable.

    Returns:
        cluster, connection_id, correlation_id, api, client_id and group_id of the request; member_id of the response if
        the request's is empty; epoch, the request's generation_id, and generation, the response's; error, the name of
        the response's first error; asked_us and answered_us (null if never), in microseconds since 1970; and `more`.
    """
    at, is_request = F.unix_micros("ts"), F.col("kind") == "request"
    asked_us = F.when(is_request, at).otherwise(F.unix_micros("request_ts"))
    request = F.struct(
        "api", "client_id", "group_id", "member_id", F.col("generation_id").alias("epoch"),
        *(column.alias(name) for name, column in more.items()),
    )  # fmt: skip
    answer = F.struct(
        at.alias("answered_us"), F.col("member_id").alias("given_id"), "generation_id",
        F.get("errors", F.lit(0))["name"].alias("error"),
    )  # fmt: skip
    is_frame = is_request & ~F.col("acks").eqNullSafe(0) | (F.col("kind") == "response")
    frames = lines.where(wanted & is_frame).select(
        "cluster", "connection_id", "correlation_id", asked_us.alias("asked_us"), "offset", "request_offset",
        F.when(is_request, request).alias("request"), F.when(~is_request, answer).alias("answer"),
    )  # fmt: skip
    known = F.coalesce(F.nullif("request.member_id", F.lit("")), F.nullif("answer.given_id", F.lit("")))
    return _paired(frames).select(
        *_KEY, "request.api", "request.client_id", "request.group_id", known.alias("member_id"), "request.epoch",
        "answer.answered_us", F.col("answer.generation_id").alias("generation"), "answer.error",
        *(f"request.{name}" for name in more),
    )  # fmt: skip


def _paired(frames: DataFrame) -> DataFrame:
    """Return the requests, each with its response or null.

    A response names its request by offset. In older traces it does not; there, equal `_KEY` columns identify an
    exchange.
    """
    asked, answers = F.struct("offset", "request"), F.struct("request_offset", "answer")
    sides = frames.groupBy(*_KEY).agg(
        F.array_sort(F.collect_list(F.when(F.col("request").isNotNull(), asked))).alias("asked"),
        F.array_sort(F.collect_list(F.when(F.col("answer").isNotNull(), answers))).alias("answers"),
    )
    is_old = F.exists("answers", lambda answer: answer["request_offset"].isNull())
    requests = F.when(is_old, F.slice("asked", 1, 1)).otherwise(F.col("asked"))
    own = F.filter("answers", lambda answer: is_old | (answer["request_offset"] == F.col("one.offset")))
    requested = sides.withColumn("one", F.explode(requests))
    return requested.select(
        *_KEY, F.col("one.request").alias("request"), F.get(own, F.lit(0))["answer"].alias("answer")
    )
