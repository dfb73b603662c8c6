"""Findings of the rules: by rule, client and broker."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dissectors.findings import Severity
from dissectors.rules import rules
from kproxy.spark.columns import array_or_empty, client_name, constant_map, direction, position_in
from kproxy.spark.jobs import job

_ENTRY = ("code", "name", "severity", "message")
#: The type of all finding rows; the rows differ in what may be null.
_ROWS = "array<struct<code:string,name:string,severity:string,message:string,times:bigint>>"


@job("findings by rule, client and broker, with an example of each")
def findings(lines: DataFrame) -> DataFrame:
    """Report how often each rule has findings at a client and a broker, with an example.

    In a trace each root cause is reported once; repeats are counted in `repeated` of the connection's close line.

    Args:
        lines: Rows of TABLE; uses connection_id, kind, ts, client_id, client and server of all lines, findings and
            offset of frames, the finding lines, and repeated of close lines.

    Returns:
        One row per rule, client and broker. Highest severity first, then most findings.

        - severity (string): the highest of the findings, or the rule's own if none is reported
        - code (string): the code of the rule
        - name (string): its name
        - client (string): the client id, or the host if there is none; null if no other line of the connection exists
        - broker (string): the address of the broker; null likewise
        - findings (bigint, findings): reported findings and repeats
        - first_at (timestamp, UTC): the first line with one; for repeats, the end of their connection
        - last_at (timestamp, UTC): the last line with one, likewise
        - message (string): of the first reported one; null if there is none, as in the columns below
        - connection_id (string): of the first reported one
        - direction (string): of its frame: request or response
        - offset (bigint, bytes): of its frame, in its direction of the connection
        - at (timestamp, UTC): of the first reported one
    """
    # Grouped by raw names first: Spark sorts all lines to compute the maximum of texts.
    connection_names = lines.groupBy("connection_id", "client", "server", "client_id", "cluster").agg(
        F.max("ts").alias("ts")
    )
    clients_by_connection = connection_names.groupBy("connection_id").agg(
        F.max("client").alias("client"),
        F.max("server").alias("broker"),
        F.max("cluster").alias("its_cluster"),
        F.max(F.when(F.col("client_id").isNotNull(), F.struct("ts", "client_id"))).alias("last"),
    )
    own_finding = F.when(F.col("kind") == "finding", F.array(_finding_row(F.struct(*_ENTRY))))
    # A lambda with one parameter: `transform` passes the index as a second one.
    frame_findings = F.transform("findings", lambda entry: _finding_row(entry))
    repeats = F.transform("repeated", lambda entry: _finding_row(entry, entry["count"]))
    rows = (array_or_empty(finding_rows.cast(_ROWS)) for finding_rows in (own_finding, frame_findings, repeats))
    finding_rows = (
        lines.select(
            "cluster",
            "connection_id",
            "ts",
            "client_id",
            "offset",
            direction().alias("direction"),
            F.explode(F.concat(*rows)).alias("found"),
        )
        .join(clients_by_connection, "connection_id", "left")
        .withColumn("client_id", F.coalesce("client_id", "last.client_id"))
        .withColumn("cluster", F.coalesce("cluster", "its_cluster"))
    )
    rank = position_in(Severity, "found.severity")
    example = F.struct(
        "ts", "connection_id", F.coalesce("offset", F.lit(0)), "direction", "offset", F.col("found.message")
    )
    grouped = finding_rows.groupBy(
        "cluster", "found.code", "found.name", client_name().alias("client"), F.col("broker").alias("broker")
    ).agg(
        F.sum("found.times").alias("findings"),
        F.max_by("found.severity", rank).alias("severity"),
        F.min("ts").alias("first_at"),
        F.max("ts").alias("last_at"),
        F.min(F.when(F.col("found.message").isNotNull(), example)).alias("example"),
    )
    rule_severities = constant_map({rule.code: rule.severity.value for rule in rules()})
    severity = F.coalesce("severity", rule_severities[F.col("code")])
    return grouped.select(
        "cluster",
        severity.alias("severity"),
        "code",
        "name",
        "client",
        "broker",
        "findings",
        "first_at",
        "last_at",
        "example.message",
        "example.connection_id",
        "example.direction",
        "example.offset",
        F.col("example.ts").alias("at"),
    ).orderBy(
        F.desc_nulls_last(position_in(Severity, "severity")),
        F.desc("findings"),
        "code",
        "name",
        "client",
        "broker",
        "cluster",
    )


def _finding_row(entry: Column, times: Column | None = None) -> Column:
    """Return the row of a reported finding, or of `times` repeats."""
    is_reported = times is None
    return F.struct(
        entry["code"].alias("code"),
        entry["name"].alias("name"),
        (entry["severity"] if is_reported else F.lit(None).cast("string")).alias("severity"),
        (entry["message"] if is_reported else F.lit(None).cast("string")).alias("message"),
        (F.lit(1).cast("long") if times is None else times).alias("times"),
    )
