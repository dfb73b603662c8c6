"""Transactions in trace lines: the story that tests of the view use, and real transactions counted independently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kproxy.spark.jobs.transactions import transactions
from kproxy.trace.lines import Line, RequestLine, ResponseLine
from kproxy.transactions import TransactionsOverview
from tests.kproxy.browse.sample_overviews import feed
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.spark.sample_lines import table
from tests.kproxy.stories import lines_of_story
from tests.kproxy.transactions.transaction_story import STORY, batch, begin, end, init, read, write

FIELDS = ("transactional_id", "producer_id", "producer_epoch", "outcome", "partitions", "records", "version")


def rows(spark: SparkSession, lines: Iterable[Line]) -> list[tuple[object, ...]]:
    return [tuple(row) for row in transactions(table(spark, *lines)).select(*FIELDS).collect()]


def test_transactions_of_the_story_are_reported(spark: SparkSession) -> None:
    assert rows(spark, lines_of_story(STORY)) == [
        ("stuck", 3, 0, "open", 1, 1, None),
        ("pay", 1, 0, "committed", 1, 0, 1),
        ("pay", 1, 0, "committed", 1, 0, 1),
        ("pay", 1, 0, "fenced", 1, 0, None),
        ("audit", 2, 0, "aborted", 1, 0, 1),
    ]
    [first, *_] = transactions(table(spark, *lines_of_story(STORY))).collect()
    assert (first["client"], first["host"], first["timeout_us"]) == ("stuck-client", "10.0.0.104", 60_000_000)
    assert round(first["open_us"] / 1_000_000) == 25
    assert first["ended_at"] is None


@pytest.mark.parametrize(
    ("continuation", "expected"),
    [
        (end("pay", 1, 0, 1, error=51), "open"),
        (init("pay", 1, 1, 1), "aborted"),
        (init("pay", 1, 1, 2), "fenced"),
        (read(9, 9, batch(1, 0, 5), batch(1, 1, 8, marker="0")), "fenced"),
        (read(9, 9, batch(1, 0, 5), batch(1, 0, 8, marker="1")), "open"),
    ],
)
def test_outcome_of_a_transaction_is_found(spark: SparkSession, continuation: str, expected: str) -> None:
    story = init("pay", 1, 0, 1) + begin("pay", 1, 0, 1) + continuation
    assert [row[3] for row in rows(spark, lines_of_story(story))] == [expected]


def test_fenced_producer_starts_no_transaction(spark: SparkSession) -> None:
    story = init("pay", 1, 0, 1) + write("pay", 1, 0, 1) + init("pay", 1, 1, 2) + write("pay", 1, 0, 1)
    assert [row[3] for row in rows(spark, lines_of_story(story))] == ["fenced"]


def count_outcomes(lines: Iterable[Line]) -> Counter[tuple[str, str]]:
    """Count the outcomes of the transactions of each transactional id, independently of the job."""
    is_open: dict[str, bool] = {}
    outcomes: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if not isinstance(line, RequestLine | ResponseLine) or (name := line.transactional_id) is None:
            continue
        is_response = isinstance(line, ResponseLine)
        if isinstance(line, ResponseLine) and line.errors:
            continue
        if line.api == "Produce" or (
            is_response and (line.api or "").endswith(("Txn", "OffsetCommit")) and line.api != "EndTxn"
        ):
            is_open[name] = True
        elif is_response and line.api == "EndTxn" and is_open.pop(name, False):
            outcomes[name, "committed" if line.committed else "aborted"] += 1
    outcomes.update((name, "open") for name in is_open)
    return outcomes


REAL = ["java-3.9.1", "confluent-3.9.1"]


@pytest.mark.parametrize("name", REAL)
def test_real_transactions_match_an_independent_count(spark: SparkSession, name: str) -> None:
    lines = list(lines_of(Path(DATA / "pcap" / f"{name}.pcap.gz")))
    frame: DataFrame = transactions(table(spark, *lines))
    reported = Counter((row["transactional_id"], row["outcome"]) for row in frame.collect())
    assert reported == count_outcomes(lines)
    assert reported
    overview = feed(TransactionsOverview(), lines)
    spans = [(row.key, span.outcome.value) for row in overview.rows(0) for span in overview.spans(row.key)]
    assert Counter(spans) == reported
