from __future__ import annotations

from collections import defaultdict

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.partitions import partitions
from kproxy.trace.lines import TopicEntry
from tests.kproxy.spark.reference import assert_rows, topics_of
from tests.kproxy.spark.sample_lines import request, response, table


def test_partition_known_only_from_metadata_counts_in_the_mean(spark: SparkSession) -> None:
    orders = TopicEntry("orders", partitions=[0, 1], bytes=40, partition_bytes=[30, 10])
    lines = table(
        spark,
        response("Metadata", topics=[TopicEntry("orders", partitions=[0, 1, 2]), TopicEntry("idle", partitions=[0])]),
        request("Produce", topics=[orders]),
        response("Produce", topics=[orders]),  # repeats the partitions of its request
        request("Fetch", topics=[TopicEntry("orders", partitions=[0])]),
        response("Fetch", topics=[TopicEntry("orders", partitions=[0], bytes=8, partition_bytes=[8])]),
        request("Produce", topics=[TopicEntry(topic_id="Y2FydHM", partitions=[4], bytes=5, partition_bytes=[5])]),
        request("Produce", topics=[TopicEntry(partitions=[4], bytes=5, partition_bytes=[5])]),
    )
    expected = [
        ("orders", 0, 30, 0.75, 2.25, 8, 1.0, 3.0),
        ("Y2FydHM", 4, 5, 1.0, 1.0, 0, None, None),
        ("orders", 1, 10, 0.25, 0.75, 0, 0.0, 0.0),
        ("orders", 2, 0, 0.0, 0.0, 0, 0.0, 0.0),
    ]
    assert_rows(partitions(lines), expected)


def test_partitions_match_plain_python_for_real_clients(real: DataFrame) -> None:
    sizes: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for line in real.collect():
        if line["kind"] in ("request", "response"):
            is_request = line["kind"] == "request"
            carries_records = is_request == (line["api"] == "Produce")
            for name, entry in topics_of(line):
                partition_sizes = entry["partition_bytes"] or []
                for index, partition in enumerate(entry["partitions"] or []):
                    sizes[name, partition][not is_request] += (
                        partition_sizes[index] if carries_records and index < len(partition_sizes) else 0
                    )
    expected = []
    for (topic, partition), size in sizes.items():
        columns = []
        for direction in (0, 1):
            topic_sizes = [other[direction] for (name, _), other in sizes.items() if name == topic]
            share = size[direction] / sum(topic_sizes) if sum(topic_sizes) else None
            columns.append((size[direction], share, share * len(topic_sizes) if share is not None else None))
        if any(share is not None for _, share, _ in columns):
            expected.append((topic, partition, *columns[0], *columns[1]))
    expected.sort(key=lambda row: (-max(row[4] or 0, row[7] or 0), -(row[2] + row[5]), row[0], row[1]))
    assert len(expected) > 5
    assert_rows(partitions(real), expected)
