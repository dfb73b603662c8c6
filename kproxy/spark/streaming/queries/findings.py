"""What the rules find that they did not find before, at a client and a broker."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name, direction, maybe
from kproxy.spark.streaming.queries import Span, query

_ENTRY = ("code", "name", "severity", "message")


@query("findings by rule, client and broker, when they are new")
def findings(lines: DataFrame, span: Span) -> DataFrame:
    """Each rule that finds something at a client and a broker, the first time, and again after the horizon.

    A finding that is tied to no frame names no client: each connection that has one tells it.

    State: each rule with a client and a broker, or a connection, for as long as the horizon.

    Args:
        lines: Rows of TABLE; uses connection_id, kind, ts, client_id, client, server, file, findings, direction and
            offset, and what finding lines say.
        span: Only its watermark, which the lines have, says what is forgotten.

    Returns:
        at, severity, code and name of the rule, client (its host if it has no client id), broker, message, and where:
        file, connection_id, direction and offset (of the frame in it, bytes).
    """
    of_line = F.when(F.col("kind") == "finding", F.array(F.struct(*_ENTRY)))
    in_frame = F.transform("findings", lambda entry: F.struct(*(entry[name].alias(name) for name in _ENTRY)))
    client = F.when(F.col("client").isNotNull(), client_name())
    found = lines.select(
        "ts",
        client.alias("client"),
        F.col("server").alias("broker"),
        "file",
        "connection_id",
        direction().alias("direction"),
        "offset",
        F.explode(F.concat(maybe(of_line), maybe(in_frame))).alias("found"),
    )
    alone = F.when(F.col("client").isNull(), F.col("connection_id"))
    first = found.withColumns({"code": F.col("found.code"), "alone": alone}).dropDuplicatesWithinWatermark(
        ["code", "client", "broker", "alone"]
    )
    return first.select(
        F.col("ts").alias("at"),
        "found.severity",
        "code",
        "found.name",
        "client",
        "broker",
        "found.message",
        "file",
        "connection_id",
        "direction",
        "offset",
    )
