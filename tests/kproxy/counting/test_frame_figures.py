"""The frame statistics that the summary, the metrics and the views share."""

from __future__ import annotations

from typing import Any

from dissectors.error_counts import MAX_NAMES, OTHERS, ErrorCounts
from kproxy.counting.frame_figures import FrameFigures, merge_figures, new_figures
from kproxy.counting.percentiles import Histogram
from kproxy.trace.lines import ErrorEntry, RequestLine, ResponseLine

FRAME: dict[str, Any] = {
    "v": 1, "ts": "2026-01-01T00:00:00.000000Z", "connection_id": "a-1-1", "offset": 0, "client": "a:1", "server": "b",
}  # fmt: skip


def frame_stats(*latencies: int | None) -> FrameFigures[Histogram]:
    stats = new_figures()
    for latency_us in latencies:
        stats.add_request(RequestLine(**FRAME, size=10))
        errors = [ErrorEntry("error_code", 6, "NOT_LEADER_OR_FOLLOWER")] * 2 if latency_us else []
        stats.add_response(ResponseLine(**FRAME, size=100, latency_us=latency_us, errors=errors))
    return stats


def test_frames_bytes_latencies_and_errors_are_counted() -> None:
    stats = frame_stats(40, None, -5)
    assert (stats.requests, stats.responses, stats.request_bytes, stats.response_bytes) == (3, 3, 30, 300)
    assert (stats.latencies.count, stats.latencies.percentiles(0, 1)) == (2, (0, 40))  # a clock set back counts as 0
    assert stats.errors.row() == (("NOT_LEADER_OR_FOLLOWER", 2),)


def test_merged_stats_equal_those_of_all_frames() -> None:
    partial_stats, expected = [frame_stats(1, 2), frame_stats(3), frame_stats()], frame_stats(1, 2, 3)
    total = merge_figures(partial_stats)
    for name in ("requests", "responses", "request_bytes", "response_bytes"):
        assert getattr(total, name) == getattr(expected, name)
    assert total.latencies.percentiles(0, 0.5, 1) == (1, 2, 3)
    assert total.errors.row() == expected.errors.row()
    assert merge_figures(partial_stats[:1]) is partial_stats[0]


def test_unknown_errors_do_not_displace_known_ones() -> None:
    counter = ErrorCounts()
    for number in range(3 * MAX_NAMES):
        counter.add([ErrorEntry("error_code", number, f"UNKNOWN_ERROR_{number}")])
    counter.add([ErrorEntry("error_code", 6, "NOT_LEADER_OR_FOLLOWER")])
    counts_by_name = dict(counter.row())
    assert (counts_by_name["NOT_LEADER_OR_FOLLOWER"], counts_by_name[OTHERS], len(counts_by_name)) == (
        1,
        2 * MAX_NAMES,
        MAX_NAMES + 2,
    )
