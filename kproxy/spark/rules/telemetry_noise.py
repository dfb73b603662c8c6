"""S044: clients that send telemetry to brokers that reject it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kproxy.spark.columns import client_name
from kproxy.spark.rules import finding_rows, message, occurrence_columns, rule

_TELEMETRY = ("GetTelemetrySubscriptions", "PushTelemetry")
#: A client learns from the first error that the broker rejects telemetry.
_MIN_REQUESTS = 3


@rule(
    "S044",
    hint="set enable.metrics.push=false in the client, or configure a metrics reporter and subscription on the broker",
)
def telemetry_noise(lines: DataFrame) -> DataFrame:
    """Find three or more error responses of the KIP-714 APIs, by client, broker and API."""
    rows = (
        lines.where((F.col("kind") == "response") & F.col("api").isin(*_TELEMETRY) & (F.size("errors") > 0))
        .groupBy("cluster", client_name().alias("client"), F.col("server").alias("broker"), "api")
        .agg(*occurrence_columns(), F.mode(F.col("errors")[0]["name"], True).alias("error"))
        .where(F.col("findings") >= _MIN_REQUESTS)
    )
    text = message("client %s sent %s to %s, which refused it %d times (%s)", "client", "api", "broker", "findings",
                "error")  # fmt: skip
    return finding_rows(rows, message=text, got=F.col("error"))
