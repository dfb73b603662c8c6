"""Transactions are read from trace lines: their states, outcomes and held records."""

from __future__ import annotations

import pytest

from kproxy.browse.rows.index import time_of
from kproxy.groups.timeline import Window
from kproxy.trace.lines import Line
from kproxy.transactions import TransactionOutcome, TransactionRow, TransactionsOverview
from kproxy.transactions.rows import TransactionStatus
from kproxy.transactions.timeline import GLYPHS, LEGEND, drawing
from tests.kproxy.browse.sample_overviews import feed
from tests.kproxy.stories import lines_of_story
from tests.kproxy.transactions.transaction_story import STORY, batch, begin, end, init, read, write

SECOND = 1_000_000_000


def overview_of(story: str) -> tuple[TransactionsOverview, int]:
    lines: list[Line] = lines_of_story(story)
    return feed(TransactionsOverview(), lines), max(time_of(line.ts) for line in lines)


def row(story: str, name: str) -> TransactionRow:
    overview, now = overview_of(story)
    return next(row for row in overview.rows(now) if row.key == name)


def outcomes(story: str, name: str = "pay") -> list[str]:
    overview, _ = overview_of(story)
    return [span.outcome.value for span in overview.spans(name)]


def test_rows_summarise_each_transactional_id() -> None:
    overview, now = overview_of(STORY)
    pay, audit, stuck, unseen = overview.rows(now)
    assert [entry.key for entry in (pay, audit, stuck, unseen)] == ["pay", "audit", "stuck", "(producer 4)"]
    assert (pay.commits, pay.aborts, pay.fenced, pay.producer_epoch, pay.begun_at) == (2, 0, 1, 1, None)
    assert pay.timeout_ms == 60_000
    assert (audit.commits, audit.aborts, audit.state) == (0, 1, TransactionStatus.COMPLETE_ABORT)
    assert audit.partitions == (("t", 1),)
    assert (stuck.state, stuck.partitions, stuck.client_id) == (TransactionStatus.ONGOING, (("t", 0),), "stuck-client")
    assert [(entry.topic, entry.partition, entry.last_stable_offset, entry.records) for entry in stuck.held] == [
        ("t", 0, 5, 4)
    ]
    assert stuck.problem(now).startswith("holds t[0] for 25.0 s; its producer left 25.0 s ago")
    assert unseen.is_hanging(now)
    assert unseen.problem(now) == "holds t[1] for 25.0 s, but its requests were not observed"
    assert not pay.problem(now)
    spans = overview.spans("pay")
    assert [round((span.ended_at or 0) - span.begun_at, -9) // SECOND for span in spans] == [2, 1, 0]
    assert [span.outcome for span in spans] == [
        TransactionOutcome.COMMITTED,
        TransactionOutcome.COMMITTED,
        TransactionOutcome.FENCED,
    ]
    assert round(pay.longest_ns / SECOND) == 2


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        ("", "open"),
        (end("pay", 1, 0, 1), "committed"),
        (end("pay", 1, 0, 1, committed=False), "aborted"),
        (end("pay", 1, 0, 1, error=51), "open"),  # CONCURRENT_TRANSACTIONS
        (init("pay", 1, 1, 1), "aborted"),  # the same producer restarts
        (init("pay", 1, 1, 2), "fenced"),
        ("1 lose > 100 frames=1\n", "unknown"),
        ("2> Metadata v9 {}\n2 lose > 100 frames=1\n", "open"),
        (
            read(9, 9, batch(1, 0, 5), batch(1, 1, 8, marker="0")),
            "fenced",
        ),  # fenced by the coordinator after the timeout
        (read(9, 9, batch(1, 0, 5), batch(1, 0, 8, marker="1")), "open"),  # the marker of an earlier transaction
        (read(9, 9, batch(7, 0, 5), batch(7, 1, 8, marker="0")), "open"),  # the marker of another producer
    ],
)
def test_outcome_depends_on_how_the_transaction_ends(ending: str, expected: str) -> None:
    assert outcomes(init("pay", 1, 0, 1) + begin("pay", 1, 0, 1) + ending) == [expected]


def test_verification_by_a_broker_does_not_change_the_client() -> None:
    verification = """
9> as AddPartitionsManager-client-1 AddPartitionsToTxn v4 {"transactions": [{"transactional_id": "pay",
   "producer_id": 1, "producer_epoch": 0, "verify_only": true, "topics": [{"name": "t", "partitions": [0]}]}]}
9< {"error_code": 0, "results_by_transaction": [{"transactional_id": "pay", "topic_results": [{"name": "t",
   "results_by_partition": [{"partition_index": 0}]}]}]}
"""
    pay = row(init("pay", 1, 0, 1) + verification, "pay")
    assert (pay.client_id, pay.producer_id) == ("pay-client", 1)
    assert row(verification, "pay").client_id == ""


def test_fenced_producer_starts_no_transaction() -> None:
    story = init("pay", 1, 0, 1) + write("pay", 1, 0, 1) + init("pay", 1, 1, 2) + write("pay", 1, 0, 1)
    assert outcomes(story) == ["fenced"]
    assert row(story, "pay").state is TransactionStatus.EMPTY


def test_state_is_prepare_commit_until_the_end_is_answered() -> None:
    end_request = end("pay", 1, 0, 1).partition("\n1< ")[0]
    assert (
        row(init("pay", 1, 0, 1) + begin("pay", 1, 0, 1) + end_request, "pay").state is TransactionStatus.PREPARE_COMMIT
    )


def test_marker_before_the_end_response_belongs_to_that_end() -> None:
    end_request, end_response = end("pay", 1, 0, 1, committed=False).split("\n1< ")
    marker = read(9, 9, batch(1, 0, 5), batch(1, 1, 8, marker="0"))  # transaction version 2 uses the next epoch
    story = init("pay", 1, 0, 1) + begin("pay", 1, 0, 1) + end_request + "\n" + marker + "1< " + end_response
    assert outcomes(story) == ["aborted"]


def test_partition_is_released_when_its_stable_offset_advances() -> None:
    story = init("pay", 1, 0, 1) + write("pay", 1, 0, 1) + read(5, 6, batch(1, 0, 5))
    assert row(story, "pay").held
    assert not row(story + read(8, 8), "pay").held
    [held_partition] = row(story + read(6, 8, batch(1, 0, 6)), "pay").held
    assert held_partition.last_stable_offset == 6


def test_transaction_without_a_marker_is_reported_as_hanging() -> None:
    story = init("pay", 1, 0, 1) + begin("pay", 1, 0, 1) + read(5, 6, batch(1, 0, 5)) + end("pay", 1, 0, 1) + "+21s\n"
    overview, now = overview_of(story + read(5, 8))
    [pay] = overview.rows(now)
    assert pay.problem(now) == "holds t[0] for 21.0 s, but no transaction is open"


def test_timeline_shows_open_transactions_and_their_ends() -> None:
    overview, now = overview_of(STORY)
    rows = overview.rows(now)
    timeline = drawing(rows, rows[0], overview.spans, now)
    assert [label for _, label in timeline.lanes] == ["pay", "audit", "stuck", "(producer 4)"]
    grid = timeline.lay_out(Window(timeline.first_at, now + 1), 60)
    lane_texts = ["".join(cell.glyph for cell in lane).rstrip() for lane in grid.cells]
    assert lane_texts[0].replace("━", "") == "BCF"
    assert lane_texts[1].strip() == "A"
    assert set(lane_texts[2].strip()) == {"B", "━"} or set(lane_texts[2].strip()) == {"B", "░"}
    assert set(lane_texts[3].strip()) == {"░"}
    zoomed = timeline.lay_out(Window(timeline.first_at, timeline.first_at + 4 * SECOND), 40)
    assert "".join(cell.glyph for cell in zoomed.cells[0]).rstrip() == "B" + "━" * 19 + "C" + "━" * 9 + "F"
    assert {legend_entry[0] for legend_entry in LEGEND} == {*GLYPHS.values()} - {" "}
