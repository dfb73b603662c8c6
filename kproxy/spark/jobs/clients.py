"""Clients: identity, API versions used, and the Kafka release that removes these versions."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dissectors.messages.message import API_VERSIONS
from dissectors.schemas import lines as releases
from dissectors.schemas.oldest_clients import OLDEST_RELEASES, RELEASE, WRAPPED_LIBRDKAFKA
from dissectors.schemas.release_versions import served
from dissectors.schemas.removed_versions import newest_release
from kproxy.browse.overviews.kafka4 import Kafka4Verdict
from kproxy.spark.columns import constant_map, position_in, set_over
from kproxy.spark.derived.api_versions_used import refused_since, uses
from kproxy.spark.jobs import job
from kproxy.spark.sentences import lookup, text

_WORST_FIRST = (Kafka4Verdict.REFUSED, Kafka4Verdict.UNKNOWN, Kafka4Verdict.WORKS)
_CLIENT = ("client", "software_name", "software_version", "cluster")


@job("clients with their software and API versions, and the Kafka release that refuses them")
def clients(lines: DataFrame, release: str | None = None) -> DataFrame:
    """Report clients, the API versions they use, and whether a Kafka release supports them (KIP-896).

    Args:
        lines: Rows of TABLE; uses connection_id, kind, ts, client, server, client_id, api, api_key, api_version,
            offset, software_name, software_version, errors and findings of requests and responses; open and gap lines.
        release: A release or release line of Kafka, e.g. ``3.9.1`` or ``4.0``; None means the newest known.

    Returns:
        One row per client and software with `api` and `api_version` null, followed by one for each API version that it
        uses. Refused clients first, then by number of requests.

        - client (string): the client id, or the host if there is none
        - software_name (string): the software that it names (KIP-511); null if unknown
        - software_version (string): its version; null if unknown
        - api (string): the API; null in the row of the client
        - api_version (bigint): the version; null in the row of the client
        - hosts (bigint, hosts): hosts on which it was seen
        - connections (bigint, connections): its connections
        - requests (bigint, requests): its requests
        - first_at (timestamp, UTC): the first request
        - last_at (timestamp, UTC): the last request
        - negotiates (boolean): whether it has sent ApiVersions
        - verdict (string): as in `kproxy.browse.overviews.kafka4`: works, refused, or unknown, because a client that
          negotiates may use newer versions with a newer broker
        - refused_from (string): the first release line without this version; for a client, its first such version
        - reason (string): a sentence

    Raises:
        ValueError: The release is unknown.
    """
    release = release or newest_release()
    is_use = F.col("api_key").isNotNull()
    rows = _with_verdict(_version_rows(lines), release)
    by_client = Window.partitionBy(*_CLIENT)
    worst = F.min(F.when(is_use, F.struct("rank", "api", "api_version", "verdict", "limit", "why"))).over(by_client)
    unserved = set_over(F.when(~F.col("served"), F.col("api")), by_client)
    first_refusal = F.min(F.when(F.col("refused_from").isNotNull(), F.struct(_line_position(), "refused_from"))).over(
        by_client
    )
    rows = rows.withColumns({"worst": worst, "others": F.size(unserved) - 1, "first": first_refusal})
    verdict = F.when(is_use, F.col("verdict")).otherwise(F.col("worst.verdict"))
    return rows.select(
        *_CLIENT,
        "api",
        "api_version",
        "hosts",
        "connections",
        "requests",
        "first_at",
        "last_at",
        "negotiates",
        verdict.alias("verdict"),
        F.when(is_use, F.col("refused_from")).otherwise(F.col("first.refused_from")).alias("refused_from"),
        F.when(is_use, _use_reason(release)).otherwise(_client_reason(release)).alias("reason"),
    ).orderBy(is_use, position_in(_WORST_FIRST, "verdict"), F.desc("requests"), *_CLIENT, "api", "api_version")


def _version_rows(lines: DataFrame) -> DataFrame:
    """Return one row per client with a null API, and one for each API version that it uses."""
    version = F.struct("api_key", "api", "api_version")
    return (
        uses(lines)
        .withColumn("version", F.explode(F.array(F.lit(None), version)))
        .groupBy(*_CLIENT, "version.api_key", "version.api", "version.api_version")
        .agg(
            F.count_distinct("host").alias("hosts"),
            F.count_distinct("connection_id").alias("connections"),
            F.sum("requests").alias("requests"),
            F.min("first_at").alias("first_at"),
            F.max("last_at").alias("last_at"),
            F.bool_or("negotiates").alias("negotiates"),
            F.bool_or("unasked").alias("unasked"),
            F.max(F.when(F.col("is_refused"), F.col("server"))).alias("refused_by"),
            F.max(F.struct("highest", "server")).alias("best"),
        )
    )


def _with_verdict(rows: DataFrame, release: str) -> DataFrame:
    """Add the verdict on each use and its reason, as `kproxy.browse.overviews.kafka4.RemovedApiUse` does for an API."""
    lowest, highest, version = F.col("lowest"), F.col("highest"), F.col("api_version")
    ranges = served(release)
    # Every broker responds to every version of ApiVersions, including future ones (KIP-511).
    is_served = F.coalesce(version.between(lowest, highest), F.lit(False)) | (F.col("api_key") == API_VERSIONS)
    limit = (
        F.when(lowest.isNull(), text("has no ", F.col("api")))
        .when(version < lowest, text("serves ", F.col("api"), " from ", _version_text(lowest), " on"))
        .otherwise(text("serves ", F.col("api"), " up to ", _version_text(highest)))
    )
    rows = (
        rows.withColumns(
            {
                "lowest": constant_map({key: bounds[0] for key, bounds in ranges.items()})[F.col("api_key")],
                "highest": constant_map({key: bounds[1] for key, bounds in ranges.items()})[F.col("api_key")],
                "refused_from": refused_since(F.col("api_key"), version),
            }
        )
        .withColumns({"served": is_served, "limit": limit})
        .withColumn("keeps_up", F.max("served").over(Window.partitionBy(*_CLIENT, "api_key")))
    )
    best = F.col("best.highest")
    cases = [
        (F.col("served"), Kafka4Verdict.WORKS, text("")),
        (F.col("refused_by").isNotNull(), Kafka4Verdict.REFUSED, text(F.col("refused_by"), " already refuses it")),
        (
            (best >= lowest) & ~F.col("keeps_up"),
            Kafka4Verdict.REFUSED,
            text(F.col("best.server"), " also serves ", _version_text(best), ", which the client does not use"),
        ),
        (
            F.col("negotiates"),
            Kafka4Verdict.UNKNOWN,
            text("it negotiates, so it may use other versions with a newer broker"),
        ),
        (F.col("unasked"), Kafka4Verdict.REFUSED, text("it does not negotiate versions (ApiVersions)")),
        (F.lit(True), Kafka4Verdict.UNKNOWN, text("it is unknown whether it negotiates")),
    ]
    verdicts = F.coalesce(*(F.when(case, verdict.value) for case, verdict, _ in cases))
    reasons = F.coalesce(*(F.when(case, reason) for case, _, reason in cases))  # no case has a null reason
    with_verdicts = rows.withColumns({"verdict": verdicts, "why": reasons})
    return with_verdicts.withColumn("rank", position_in(_WORST_FIRST, "verdict"))


def _use_reason(release: str) -> Column:
    """Return the reason for the verdict on a use."""
    return F.when(F.col("served"), text(f"Kafka {release} serves it")).otherwise(
        text(f"Kafka {release} ", F.col("limit"), "; ", F.col("why"))
    )


def _client_reason(release: str) -> Column:
    """Return the reason for the verdict on a client: its worst use."""
    worst, others = F.col("worst"), F.col("others")
    use_text = text(
        "uses ", worst["api"], " ", _version_text(worst["api_version"]), f", but Kafka {release} ", worst["limit"]
    )
    others_text = F.when(others == 1, " (and 1 more API)").when(
        others > 1, text(" (and ", others.cast("string"), " more APIs)")
    )
    library, oldest_release, is_recent = _kip_requirement()
    requirement = F.when(is_recent.isNotNull(), text("KIP-896 requires ", library, " ", oldest_release, " or later"))
    fulfilled = F.when(is_recent, ", which it is").otherwise("")
    requirement_note = text(" (", requirement, fulfilled, ")")
    too_old = F.when(~is_recent, text("; ", requirement))
    is_working, is_unknown = (
        worst["verdict"] == verdict.value for verdict in (Kafka4Verdict.WORKS, Kafka4Verdict.UNKNOWN)
    )
    if int(release.partition(".")[0]) < 4:
        requirement_note = too_old = F.lit(None).cast("string")
    return F.when(
        is_working, text(f"Kafka {release} serves every version it uses", F.coalesce(too_old, F.lit("")))
    ).otherwise(
        text(
            use_text,
            F.coalesce(others_text, F.lit("")),
            "; ",
            worst["why"],
            F.when(is_unknown & requirement_note.isNotNull(), requirement_note).otherwise(""),
        )
    )


def _kip_requirement() -> tuple[Column, Column, Column]:
    """Return the library, its oldest working release, and whether the client's is that new; null if not in KIP-896."""
    wrapped_version = F.nullif(F.regexp_extract("software_version", WRAPPED_LIBRDKAFKA, 1), F.lit(""))
    library = F.when(wrapped_version.isNotNull(), "librdkafka").otherwise(F.col("software_name"))
    release = F.regexp_extract(F.coalesce(wrapped_version, "software_version"), RELEASE, 1)
    oldest_release = lookup(library, OLDEST_RELEASES)
    return library, oldest_release, _release_numbers(F.nullif(release, F.lit(""))) >= _release_numbers(oldest_release)


def _release_numbers(release: Column) -> Column:
    return F.split(release, r"\.").cast("array<int>")


def _line_position() -> Column:
    return position_in(releases.lines(), "refused_from")


def _version_text(version: Column) -> Column:
    return text("v", version.cast("string"))
