"""Requests paired with their responses."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_KEY = ["cluster", "connection_id", "correlation_id", "asked_us"]


def exchanges(lines: DataFrame, condition: Column, **extra_columns: Column) -> DataFrame:
    """Return the requests that match `condition`, each with its response, except acks=0 requests, which have none.

    Args:
        lines: Rows of TABLE. Responses to requests before the first line, or not in the table, are dropped.
        condition: A condition on columns that requests and responses have; it holds for both frames of an exchange.
        extra_columns: Further columns of the request, by name. Their values must be orderable.

    Returns:
        cluster, connection_id, correlation_id, api, client_id and group_id of the request; member_id of the response if
        the request's is empty; epoch, the request's generation_id, and generation, the response's; error, the name of
        the response's first error; asked_us and answered_us (null if never), in microseconds since 1970; and
        `extra_columns`.
    """
    at, is_request = F.unix_micros("ts"), F.col("kind") == "request"
    asked_us = F.when(is_request, at).otherwise(F.unix_micros("request_ts"))
    request = F.struct(
        "api", "client_id", "group_id", "member_id", F.col("generation_id").alias("epoch"),
        *(column.alias(name) for name, column in extra_columns.items()),
    )  # fmt: skip
    response = F.struct(
        at.alias("answered_us"), F.col("member_id").alias("given_id"), "generation_id",
        F.get("errors", F.lit(0))["name"].alias("error"),
    )  # fmt: skip
    is_frame = is_request & ~F.col("acks").eqNullSafe(0) | (F.col("kind") == "response")
    frames = lines.where(condition & is_frame).select(
        "cluster", "connection_id", "correlation_id", asked_us.alias("asked_us"), "offset", "request_offset",
        F.when(is_request, request).alias("request"), F.when(~is_request, response).alias("answer"),
    )  # fmt: skip
    member_id = F.coalesce(F.nullif("request.member_id", F.lit("")), F.nullif("answer.given_id", F.lit("")))
    return _pair(frames).select(
        *_KEY, "request.api", "request.client_id", "request.group_id", member_id.alias("member_id"), "request.epoch",
        "answer.answered_us", F.col("answer.generation_id").alias("generation"), "answer.error",
        *(f"request.{name}" for name in extra_columns),
    )  # fmt: skip


def _pair(frames: DataFrame) -> DataFrame:
    """Return the requests, each with its response or null.

    A response names its request by offset, except in older traces, where equal `_KEY` columns identify an exchange.
    """
    request_struct, response_struct = F.struct("offset", "request"), F.struct("request_offset", "answer")
    frames_by_key = frames.groupBy(*_KEY).agg(
        F.array_sort(F.collect_list(F.when(F.col("request").isNotNull(), request_struct))).alias("asked"),
        F.array_sort(F.collect_list(F.when(F.col("answer").isNotNull(), response_struct))).alias("answers"),
    )
    lacks_offsets = F.exists("answers", lambda answer: answer["request_offset"].isNull())
    requests = F.when(lacks_offsets, F.slice("asked", 1, 1)).otherwise(F.col("asked"))
    own_responses = F.filter(
        "answers", lambda answer: lacks_offsets | (answer["request_offset"] == F.col("one.offset"))
    )
    expanded = frames_by_key.withColumn("one", F.explode(requests))
    return expanded.select(
        *_KEY, F.col("one.request").alias("request"), F.get(own_responses, F.lit(0))["answer"].alias("answer")
    )
