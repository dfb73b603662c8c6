"""The figures of frames, which the summary, the metrics and the views share."""

from __future__ import annotations

from typing import Any

from dissectors.error_counts import MAX_NAMES, OTHERS, ErrorCounts
from kproxy.counting.frame_figures import FrameFigures, merge_figures, new_figures
from kproxy.counting.percentiles import Histogram
from kproxy.trace.lines import ErrorEntry, RequestLine, ResponseLine

FRAME: dict[str, Any] = {
    "v": 1, "ts": "2026-01-01T00:00:00.000000Z", "connection_id": "a-1-1", "offset": 0, "client": "a:1", "server": "b",
}  # fmt: skip


def figures(*latencies: int | None) -> FrameFigures[Histogram]:
    figures = new_figures()
    for us in latencies:
        figures.add_request(RequestLine(**FRAME, size=10))
        errors = [ErrorEntry("error_code", 6, "NOT_LEADER_OR_FOLLOWER")] * 2 if us else []
        figures.add_response(ResponseLine(**FRAME, size=100, latency_us=us, errors=errors))
    return figures


def test_frames_bytes_latencies_and_errors_are_counted() -> None:
    found = figures(40, None, -5)
    assert (found.requests, found.responses, found.request_bytes, found.response_bytes) == (3, 3, 30, 300)
    assert (found.latencies.count, found.latencies.percentiles(0, 1)) == (2, (0, 40))  # the clock was set back
    assert found.errors.row() == (("NOT_LEADER_OR_FOLLOWER", 2),)


def test_merged_is_as_if_counted_together() -> None:
    several, together = [figures(1, 2), figures(3), figures()], figures(1, 2, 3)
    total = merge_figures(several)
    for name in ("requests", "responses", "request_bytes", "response_bytes"):
        assert getattr(total, name) == getattr(together, name)
    assert total.latencies.percentiles(0, 0.5, 1) == (1, 2, 3)
    assert total.errors.row() == together.errors.row()
    assert merge_figures(several[:1]) is several[0]


def test_errors_that_a_broker_makes_up_do_not_displace_kafkas() -> None:
    counts = ErrorCounts()
    for number in range(3 * MAX_NAMES):
        counts.add([ErrorEntry("error_code", number, f"UNKNOWN_ERROR_{number}")])
    counts.add([ErrorEntry("error_code", 6, "NOT_LEADER_OR_FOLLOWER")])
    found = dict(counts.row())
    assert (found["NOT_LEADER_OR_FOLLOWER"], found[OTHERS], len(found)) == (1, 2 * MAX_NAMES, MAX_NAMES + 2)
