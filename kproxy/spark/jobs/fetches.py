"""Fetch efficiency: data returned, empty fetches, and consumer lag."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kproxy.spark.columns import array_or_empty, client_name, is_decoded, topic_name
from kproxy.spark.derived.memberships import memberships
from kproxy.spark.jobs import job
from kproxy.spark.sentences import host

#: An empty response that took this long (µs) waited for fetch.max.wait.ms (500 by default), which lines do not contain.
_WAITED_US = 100_000


@job("data returned by Fetch, empty fetches, and consumer lag, by client, group and topic")
def fetches(lines: DataFrame) -> DataFrame:
    """Report how efficiently clients fetch (Fetch and ShareFetch), and their lag.

    Args:
        lines: Rows of TABLE; uses ts, kind, api, client_id, client, group_id, latency_us, topics, errors, not_decoded
            and offset of fetch responses, and of requests of group members.

    Returns:
        One row per client and group with `topic` null, for all that it fetched, and one for each topic. Most fetches
        first, topics after their client.

        - client (string): the client id, or the host if there is none
        - group_id (string): the group of the members with this client id on this host; null if there are none, or
          several
        - topic (string): the topic, or its id if the name is unknown; null in the row of the client
        - fetches (bigint, responses): responses; for a topic, its entries in them: an empty Fetch in a session has none
          (KIP-227)
        - empty (bigint, responses): those without a record and without an error
        - waited (bigint, responses): empty ones that took 100 ms or more; the others returned immediately
        - empty_share (double, 0 to 1): share of `fetches`
        - waited_share (double, 0 to 1): share of `fetches`
        - brought_bytes (bigint, bytes): sum of record data
        - records (bigint, records): sum
        - per_fetch_bytes (double, bytes): mean of those that are not empty
        - records_per_fetch (double, records): mean of those that are not empty
        - last_lag (bigint, records): records left to read after the last such response, over the partitions in it,
          which are those of one broker
        - max_lag (bigint, records): the largest such number
    """
    responses = lines.where(is_decoded("Fetch", "ShareFetch")).select(
        "cluster",
        "ts",
        "offset",
        "latency_us",
        client_name().alias("client"),
        host(F.col("client")).alias("host"),
        F.col("group_id").alias("own_group"),
        F.explode(_views()).alias("view"),
    )
    by_client = Window.partitionBy("cluster", "client", "group_id")
    return (
        memberships(lines)
        .join(responses, ["cluster", "client", "host"], "right")
        .withColumn("group_id", F.coalesce("own_group", "member_group"))
        .groupBy("cluster", "client", "group_id", "view.topic")
        .agg(*_statistics())
        .withColumn("all_fetches", F.max("fetches").over(by_client))
        .orderBy(
            F.desc("all_fetches"),
            "client",
            "group_id",
            "cluster",
            F.col("topic").isNotNull(),
            F.desc("fetches"),
            "topic",
        )
        .drop("all_fetches")
    )


def _views() -> Column:
    """Return the data in a response, in total and per topic."""
    has_error = F.size(array_or_empty(F.col("errors"))) > 0

    def view_struct(topic: Column, size: Column, records: Column, lag: Column) -> Column:
        is_empty = (F.coalesce(size, F.lit(0)) == 0) & ~has_error
        columns = {"topic": topic, "bytes": size, "records": records, "lag": lag, "is_empty": is_empty}
        return F.struct(*(column.alias(name) for name, column in columns.items()))

    totals = view_struct(
        F.lit(None).cast("string"), _sum_over_topics("bytes"), _sum_over_topics("records"), _sum_over_topics("lag")
    )
    entries = F.transform(
        "topics", lambda entry: view_struct(topic_name(entry), entry["bytes"], entry["records"], entry["lag"])
    )
    return F.concat(F.array(totals), array_or_empty(entries))


def _sum_over_topics(key: str) -> Column:
    """Return the sum over the topics of a line; null if none has a value."""
    values = F.array_compact(F.transform("topics", lambda entry: entry[key]))
    total = F.aggregate(values, F.lit(0).cast("long"), lambda total, number: total + number)
    return F.when(F.size(values) > 0, total)


def _statistics() -> list[Column]:
    is_empty = F.col("view.is_empty")
    has_waited = is_empty & (F.col("latency_us") >= _WAITED_US)
    size, records, lag = (F.col(f"view.{name}") for name in ("bytes", "records", "lag"))
    has_data = size > 0
    return [
        F.count("*").alias("fetches"),
        F.count_if(is_empty).alias("empty"),
        F.count_if(has_waited).alias("waited"),
        F.mean(is_empty.cast("int")).alias("empty_share"),
        F.mean(F.coalesce(has_waited, F.lit(False)).cast("int")).alias("waited_share"),
        F.coalesce(F.sum(size), F.lit(0)).alias("brought_bytes"),
        F.coalesce(F.sum(records), F.lit(0)).alias("records"),
        F.mean(F.when(has_data, size)).alias("per_fetch_bytes"),
        F.mean(F.when(has_data, records)).alias("records_per_fetch"),
        F.max_by(lag, F.when(lag.isNotNull(), F.struct("ts", "offset"))).alias("last_lag"),
        F.max(lag).alias("max_lag"),
    ]
