"""New findings, by rule, client and broker."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import array_or_empty, client_name, direction
from kproxy.spark.streaming.queries import Span, query

_ENTRY = ("code", "name", "severity", "message")


@query("findings by rule, client and broker, when they are new")
def findings(lines: DataFrame, span: Span) -> DataFrame:
    """Report each rule with a finding at a client and a broker, once per horizon.

    A finding without a frame names no client, so it is reported for each connection.

    State: each rule with a client and a broker, or a connection, for the horizon.

    Args:
        lines: Rows of TABLE; uses connection_id, kind, ts, client_id, client, server, file, findings, direction and
            offset, and the fields of finding lines.
        span: Only the watermark, which the lines have, is used.

    Returns:
        at, severity, code and name of the rule, client (its host if it has no client id), broker, message, and the
        location: file, connection_id, direction and offset (of the frame in it, bytes).
    """
    own_finding = F.when(F.col("kind") == "finding", F.array(F.struct(*_ENTRY)))
    frame_findings = F.transform("findings", lambda entry: F.struct(*(entry[name].alias(name) for name in _ENTRY)))
    client = F.when(F.col("client").isNotNull(), client_name())
    finding_rows = lines.select(
        "ts",
        client.alias("client"),
        F.col("server").alias("broker"),
        "file",
        "connection_id",
        direction().alias("direction"),
        "offset",
        F.explode(F.concat(array_or_empty(own_finding), array_or_empty(frame_findings))).alias("found"),
    )
    connection_key = F.when(F.col("client").isNull(), F.col("connection_id"))
    new_findings = finding_rows.withColumns(
        {"code": F.col("found.code"), "alone": connection_key}
    ).dropDuplicatesWithinWatermark(["code", "client", "broker", "alone"])
    return new_findings.select(
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
