from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.throughput import throughput
from kproxy.trace.lines import TopicEntry
from tests.kproxy.spark.reference import assert_rows, client_of, percentile, topics_of
from tests.kproxy.spark.sample_lines import close, request, response, table

ORDER = ["api", "client", "broker", "topic"]


def test_frames_and_record_data_of_topics_are_measured(spark: SparkSession) -> None:
    lines = table(
        spark,
        request("Produce", at=0, size=300, topics=[TopicEntry("orders", bytes=200), TopicEntry("carts", bytes=0)]),
        response("Produce", at=1, size=40, topics=[TopicEntry("orders", bytes=200), TopicEntry("carts")]),
        request("Produce", at=2, size=100, client_id="", acks=0, topics=[TopicEntry("orders", bytes=100)]),
        request("Metadata", at=4, size=20, topics=[TopicEntry("orders")]),  # not answered
        response(None, at=4, size=1000),  # without a request
        close(at=5000),
    )
    rows = {(row["by"], row["value"]): row.asDict() for row in throughput(lines).collect()}
    assert list(rows) == [
        ("api", "Produce"), ("api", "Metadata"), ("client", "app"), ("client", "10.0.0.9"),
        ("broker", "10.0.0.1:9092"), ("topic", "orders"), ("topic", "carts"),
    ]  # fmt: skip
    produce = rows["api", "Produce"]
    assert (produce["requests"], produce["requests_per_s"], produce["rate_bytes"]) == (2, 0.5, 110.0)
    assert [produce[f"request_{name}_bytes"] for name in ("total", "p50", "p99", "max")] == [400, 200.0, 298.0, 300]
    assert [produce[f"response_{name}_bytes"] for name in ("total", "p50", "p99", "max")] == [40, 40.0, 40.0, 40]
    assert (produce["last_at"] - produce["first_at"]).total_seconds() == 2
    metadata = rows["api", "Metadata"]
    assert [metadata[f"response_{name}_bytes"] for name in ("total", "p50", "p99", "max")] == [0, None, None, None]
    orders = rows["topic", "orders"]
    assert (orders["requests"], orders["responses"], orders["rate_bytes"]) == (3, 1, 75.0)
    assert (orders["request_max_bytes"], orders["response_total_bytes"]) == (200, 0)
    assert rows["topic", "carts"]["request_p99_bytes"] == 0


def test_long_pauses_do_not_count_in_rates(spark: SparkSession) -> None:
    shifts = [request(at=hour * 3600 + second) for hour in (0, 8, 24) for second in range(11)]
    [api, *_] = throughput(table(spark, *shifts)).collect()
    assert (api["requests"], api["requests_per_s"]) == (33, 1.1)


def test_periods_shorter_than_a_second_count_as_one_second(spark: SparkSession) -> None:
    [api, *_] = throughput(table(spark, request(at=7, size=50))).collect()
    assert (api["requests_per_s"], api["rate_bytes"]) == (1.0, 50.0)


def test_throughput_matches_plain_python_for_real_clients(real: DataFrame) -> None:
    frames = [line for line in real.collect() if line["kind"] in ("request", "response")]
    frames_by_view = defaultdict(list)
    for line in frames:
        for by, value in (("api", line["api"]), ("client", client_of(line)), ("broker", line["server"])):
            if value is not None:
                frames_by_view[by, value].append((line["kind"], line["ts"], line["size"]))
        for name, entry in topics_of(line):
            carries_records = line["kind"] == ("request" if line["api"] == "Produce" else "response")
            frames_by_view["topic", name].append(
                (line["kind"], line["ts"], entry["bytes"] if carries_records else None)
            )
    times = sorted({at for view_frames in frames_by_view.values() for _, at, _ in view_frames})
    pauses = [(after - before).total_seconds() for before, after in pairwise(times)]
    seconds = sum(pause for pause in pauses if pause <= 600)
    assert max(pauses) > 600
    expected = []
    for (by, value), view_frames in frames_by_view.items():
        row = {
            "by": by,
            "value": value,
            "first_at": min(at for _, at, _ in view_frames),
            "last_at": max(at for _, at, _ in view_frames),
        }
        for kind in ("request", "response"):
            sizes = [size for frame_kind, _, size in view_frames if frame_kind == kind and size is not None]
            row |= {
                f"{kind}s": sum(frame_kind == kind for frame_kind, _, _ in view_frames),
                f"{kind}_total_bytes": sum(sizes),
                f"{kind}_p50_bytes": percentile(sizes, 0.5),
                f"{kind}_p99_bytes": percentile(sizes, 0.99),
                f"{kind}_max_bytes": max(sizes, default=None),
            }
        row["requests_per_s"] = row["requests"] / seconds
        row["rate_bytes"] = (row["request_total_bytes"] + row["response_total_bytes"]) / seconds
        expected.append(row)
    expected.sort(key=lambda row: (ORDER.index(row["by"]), -row["rate_bytes"], row["value"]))
    assert_rows(throughput(real), expected)
