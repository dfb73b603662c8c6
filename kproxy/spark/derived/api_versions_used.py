"""API versions that clients use per connection, and evidence of whether they could use others."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.messages.message import API_VERSIONS, UNSUPPORTED_VERSION
from dissectors.schemas.release_versions import first_lines_without
from kproxy.spark.columns import array_or_empty, client_name, constant_map
from kproxy.spark.sentences import host, text

#: The rule whose finding is that a request's version is lower than the server's lowest.
_BELOW_ADVERTISED = "V002"

#: The aggregates are numbers, grouped by these names: Spark sorts all lines to compute the maximum of texts.
_KEY = (
    "cluster", "connection_id", "client", "server", "client_id", "api", "api_key", "api_version",
    "software_name", "software_version",
)  # fmt: skip


def uses(lines: DataFrame) -> DataFrame:
    """Return the API versions used in requests, one row per version and connection.

    Returns:
        cluster, connection_id, server, host, client (its host if it has no client id); software_name and
        software_version, null if not sent on the connection; api, api_key, api_version, requests, first_at, last_at.
        negotiates: ApiVersions was sent with this client id from this host; unasked: the version was used without
        ApiVersions before it, on a connection that was seen from its start; is_refused: the server does not support it;
        highest: the highest version of the API that the server has answered, to any client.
    """
    connection = Window.partitionBy("connection_id")
    caller = Window.partitionBy("cluster", "client_id", "host")
    server = Window.partitionBy("cluster", "server", "api_key")
    is_api_versions = F.col("api_key") == API_VERSIONS
    negotiated_offset = F.min(F.when(is_api_versions, F.col("first_offset"))).over(connection)
    is_whole = F.max("has_open").over(connection) & ~F.max("has_request_gap").over(connection)
    sent_software = F.when(
        F.col("software_name").isNotNull(), F.struct("last_offset", "software_name", "software_version")
    )
    software = F.max(sent_software).over(connection)
    frames = (
        _count_uses(lines)
        .withColumns(
            {
                "unasked": is_whole & F.coalesce(F.col("first_offset") < negotiated_offset, F.lit(True)),
                "software_name": software["software_name"],
                "software_version": software["software_version"],
                "host": host(F.col("client")),
                "client": client_name(),
            }
        )
        .where(F.col("api_key").isNotNull() & F.col("api_version").isNotNull())
    )
    frames = frames.withColumns(
        {
            "negotiates": F.max(is_api_versions).over(caller),
            "highest": F.max(F.when(F.col("is_answered"), F.col("api_version"))).over(server),
        }
    )
    return frames.where(F.col("requests") > 0).select(
        "cluster", "connection_id", "server", "host", "client", "software_name", "software_version", "api", "api_key",
        "api_version", "requests", "first_at", "last_at", "negotiates", "unasked", "is_refused", "highest",
    )  # fmt: skip


def _count_uses(lines: DataFrame) -> DataFrame:
    """Count lines by connection and version; open and gap lines have no version."""
    kind = F.col("kind")
    is_request = kind == "request"
    requested_at, offset = F.when(is_request, F.col("ts")), F.when(is_request, F.col("offset"))
    is_refusal = F.exists(array_or_empty(F.col("errors")), lambda error: error["code"] == UNSUPPORTED_VERSION)
    is_below = F.exists(array_or_empty(F.col("findings")), lambda finding: finding["code"] == _BELOW_ADVERTISED)
    return (
        lines.where(kind.isin("open", "request", "response", "gap"))
        .groupBy(*_KEY)
        .agg(
            F.count_if(is_request).alias("requests"),
            F.min(requested_at).alias("first_at"),
            F.max(requested_at).alias("last_at"),
            F.min(offset).alias("first_offset"),
            F.max(offset).alias("last_offset"),
            F.bool_or((kind == "response") & ~is_refusal).alias("is_answered"),
            F.bool_or(is_refusal | (is_request & is_below)).alias("is_refused"),
            F.bool_or((kind == "open") & ~F.coalesce("midstream", F.lit(False))).alias("has_open"),
            F.bool_or((kind == "gap") & (F.col("direction") == "request")).alias("has_request_gap"),
        )
    )


def refused_since(api_key: Column, api_version: Column) -> Column:
    """Return the first release line without a version that earlier lines supported; null if there is none."""
    lines_by_version = {f"{key} {version}": line for (key, version), line in first_lines_without().items()}
    return constant_map(lines_by_version)[text(api_key.cast("string"), " ", api_version.cast("string"))]
