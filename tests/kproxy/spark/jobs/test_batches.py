from __future__ import annotations

from collections import defaultdict

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.batches import batches
from kproxy.trace.lines import TopicEntry
from tests.kproxy.spark.reference import assert_rows, client_of, percentile, topics_of
from tests.kproxy.spark.sample_lines import request, response, table


def batch_entry(topic: str | None, size: int, records: int, batch_count: int, *codecs: str) -> TopicEntry:
    return TopicEntry(topic, bytes=size, records=records, batches=batch_count, compression=list(codecs))


def test_batches_of_an_entry_count_with_their_mean_size(spark: SparkSession) -> None:
    lines = table(
        spark,
        request(
            "Produce",
            topics=[batch_entry("orders", 300, 30, 3, "gzip", "none"), batch_entry("carts", 70, 1, 1, "none")],
        ),
        request("Produce", topics=[batch_entry("orders", 500, 10, 1, "none")]),
        request("Produce", topics=[TopicEntry("orders", bytes=0)]),  # an entry without records
        request("Produce", client_id=None, topics=[TopicEntry(topic_id="Y2FydHM", bytes=9, records=1, batches=1)]),
        response("Produce", topics=[batch_entry("orders", 500, 10, 1, "none")]),
        response("Fetch", topics=[batch_entry("orders", 500, 10, 1, "none")]),
    )
    expected = [
        ("app", "orders", 2, 4, 40, 800, 2.0, 10.0, 200.0, 100.0, 488.0, ["gzip", "none"], 0.625),
        ("10.0.0.9", "Y2FydHM", 1, 1, 1, 9, 1.0, 1.0, 9.0, 9.0, 9.0, [], 0.0),
        ("app", "carts", 1, 1, 1, 70, 1.0, 1.0, 70.0, 70.0, 70.0, ["none"], 1.0),
    ]
    assert_rows(batches(lines), expected)


def test_batches_without_bytes_have_no_uncompressed_share(spark: SparkSession) -> None:
    [row] = batches(table(spark, request("Produce", topics=[batch_entry("orders", 0, 0, 1)]))).collect()
    assert (row["records_per_batch"], row["mean_batch_bytes"], row["uncompressed_share"]) == (0, 0, None)


def test_batches_match_plain_python_for_real_clients(real: DataFrame) -> None:
    entries_by_client = defaultdict(list)
    for line in real.collect():
        if line["kind"] == "request" and line["api"] == "Produce":
            for name, entry in topics_of(line):
                if entry["batches"]:
                    entries_by_client[client_of(line), name].append(entry)
    expected = []
    for (client, topic), entries in entries_by_client.items():
        count, records, size = (sum(entry[name] for entry in entries) for name in ("batches", "records", "bytes"))
        sizes = [entry["bytes"] / entry["batches"] for entry in entries for _ in range(entry["batches"])]
        uncompressed_bytes = sum(entry["bytes"] for entry in entries if entry["compression"] == ["none"])
        expected.append(
            (client, topic, len(entries), count, records, size, count / len(entries), records / count, size / count,
             percentile(sizes, 0.5), percentile(sizes, 0.99),
             sorted({codec for entry in entries for codec in entry["compression"] or ()}), uncompressed_bytes / size)
        )  # fmt: skip
    expected.sort(key=lambda row: (-row[2], row[0], row[1]))
    assert len(expected) > 3
    assert_rows(batches(real), expected)
