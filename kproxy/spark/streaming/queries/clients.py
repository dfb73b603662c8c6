"""New clients: their software, and the API versions they use that newer releases remove."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dissectors.messages.message import API_VERSIONS
from kproxy.spark.columns import client_name
from kproxy.spark.derived.api_versions_used import refused_since
from kproxy.spark.streaming.queries import Span, query

_ITEM_COLUMNS = ("client", "software_name", "software_version", "api", "api_version")


@query("clients and their software, and the versions they use that newer releases refuse, when they are new")
def clients(lines: DataFrame, span: Span) -> DataFrame:
    """Report each client with its software, and with each removed version that it uses, once per horizon.

    State: these items, each for the horizon.

    Args:
        lines: Rows of TABLE; uses connection_id, kind, ts, client, server, client_id, file, api, api_key, api_version,
            offset, software_name and software_version of requests.
        span: Only the watermark, which the lines have, is used.

    Returns:
        at, client (its host if it has no client id); either software_name and software_version from its ApiVersions
        request (KIP-511; null if it sends none), or, for an API version that brokers remove, api, api_version and
        refused_from, the first release line without it; the others are null. Then address (of the client), broker, and
        the location: file, connection_id and offset (of the frame).
    """
    null = F.lit(None).cast("string")
    refused_line = refused_since(F.col("api_key"), F.col("api_version"))
    is_api_versions = F.col("api_key") == API_VERSIONS  # supported by every broker in every version
    item = F.when(
        is_api_versions,
        F.struct(
            "software_name",
            "software_version",
            null.alias("api"),
            F.lit(None).cast("long").alias("api_version"),
            null.alias("refused_from"),
        ),
    ).when(
        refused_line.isNotNull(),
        F.struct(
            null.alias("software_name"),
            null.alias("software_version"),
            "api",
            "api_version",
            refused_line.alias("refused_from"),
        ),
    )
    new_items = (
        lines.where(F.col("kind") == "request")
        .select(
            F.col("ts").alias("at"),
            client_name().alias("client"),
            item.alias("who"),
            F.col("client").alias("address"),
            F.col("server").alias("broker"),
            "file",
            "connection_id",
            "offset",
        )
        .where(F.col("who").isNotNull())
        .select("at", "client", "who.*", "address", "broker", "file", "connection_id", "offset")
    )
    return new_items.dropDuplicatesWithinWatermark(list(_ITEM_COLUMNS))
