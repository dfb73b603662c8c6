"""With several inspectors, each cause is reported once, and repeats refer to the very first report."""

from __future__ import annotations

from dissectors.trackers.state import MAX_CAUSE_AGE
from kproxy.live.first_reports import FirstReports
from kproxy.trace.lines import RepeatedFinding
from tests.kproxy.browse.sessions import finding, request


def test_finding_reported_by_another_worker_becomes_a_repeat() -> None:
    reports, entry = FirstReports(), finding("error", "L003")
    first, second = request(1, connection_id="n-1"), request(2, connection_id="n-2")
    assert reports.is_new("cause", entry, first, at=0)
    assert not reports.is_new("cause", entry, second, at=1)
    assert second.repeats == [RepeatedFinding("L003", "error", "n-1", None, first.offset)]
    assert reports.is_new("cause", entry, request(3), at=2 + MAX_CAUSE_AGE)


def test_later_repeats_refer_to_the_first_report() -> None:
    reports, entry = FirstReports(), finding("error", "L003")
    first, second = request(1, connection_id="n-1"), request(2, connection_id="n-2")
    reports.is_new("cause", entry, first, at=0)
    reports.is_new("cause", entry, second, at=1)
    third = request(3, connection_id="n-2", repeats=[RepeatedFinding("L003", "error", offset=second.offset, count=4)])
    reports.follow(third)
    assert third.repeats == [RepeatedFinding("L003", "error", "n-1", None, first.offset, 4)]


def test_info_finding_is_not_marked_as_repeated() -> None:
    reports, entry = FirstReports(), finding("info", "V003")
    reports.is_new("cause", entry, request(1), at=0)
    second = request(2)
    assert not reports.is_new("cause", entry, second, at=1)
    assert second.repeats == []
