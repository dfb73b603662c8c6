"""Stalls in a trace: the last line of each stall matches what the terminal UI shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dissectors.connections.events import Direction
from dissectors.failures import Failure
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import FindingLine, Line, RequestLine, StallLine
from kproxy.trace.timestamps import nanoseconds
from kproxy.verdict.causes import Causes
from tests.kproxy.browse.group_story import TAIL, GroupStory, lines_of
from tests.kproxy.browse.sessions import BEGAN, SECOND
from tests.kproxy.browse.stall_stories import (
    CASES,
    DetectedStall,
    detect_stalls,
    recorded_stalls,
    recorded_with_findings,
)
from tests.kproxy.frames import request

_MEMBER_STALLS = ("not-rejoining", "member-lost", "heartbeats-stopped")


def build_case(name: str) -> tuple[list[Line], int]:
    build, now = CASES[name]
    story = GroupStory(name)
    build(story)
    return sorted(story.lines, key=lambda line: line.ts), BEGAN + int(now * SECOND)


def last_line_of_each_stall(lines: list[StallLine]) -> list[StallLine]:
    """Return the last line of each stall, except for stalls of a member that others wait for."""
    last_lines = {(line.stall, line.since, line.connection_id, line.request_offset): line for line in lines}
    join_waits = [stall for stall in last_lines.values() if stall.stall == "join-waits"]
    return [
        stall_line
        for stall_line in last_lines.values()
        if stall_line.stall not in _MEMBER_STALLS
        or not any(
            {*stall_line.blamed_ids} <= {*wait.blamed_ids}
            and wait.since <= (stall_line.until or "~")
            and stall_line.since <= (wait.until or "~")
            for wait in join_waits
        )
    ]


def comparable_stalls(lines: list[StallLine]) -> list[DetectedStall]:
    return sorted(
        (
            line.stall, nanoseconds(line.since) // 1000, line.until and nanoseconds(line.until) // 1000,
            frozenset(line.waiting), frozenset(line.blamed), line.message,
        )
        for line in last_line_of_each_stall(lines)
    )  # type: ignore[type-var]  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_last_line_of_a_stall_matches_the_terminal(name: str) -> None:
    lines, now = build_case(name)
    assert comparable_stalls(recorded_stalls(lines, now)) == detect_stalls(lines, name, now)


@pytest.mark.parametrize(
    "name", ["application-does-not-poll", "frozen-process", "killed-member", "partitions-not-given-up"]
)
def test_stall_lines_of_real_groups_match_the_terminal(name: str) -> None:
    lines = lines_of(name)
    now = nanoseconds(lines[-1].ts)
    assert comparable_stalls(recorded_stalls(lines, now)) == detect_stalls(lines, "billing", now)


def test_writes_a_stall_when_it_starts_worsens_doubles_and_ends() -> None:
    lines, now = build_case("leader_is_not_seen")
    stall_lines = recorded_stalls(lines, now)
    assert [(line.severity, line.duration_us // 1_000_000, line.until is None) for line in stall_lines] == [
        ("warning", 3, True), ("warning", 7, True), ("error", 10, True), ("error", 19, False),
    ]  # fmt: skip
    assert {(stall_line.since, stall_line.connection_id, stall_line.request_offset) for stall_line in stall_lines} == {
        (stall_lines[0].since, "n-b", 200)
    }  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_stall_is_reported_when_detected_and_when_it_worsens(name: str) -> None:
    lines, now = build_case(name)
    written_lines = recorded_with_findings(lines, now)
    severities_by_stall: dict[tuple[str, str, str, int | None], list[str]] = {}
    for previous, line in zip([None, *written_lines], written_lines, strict=False):
        if isinstance(line, StallLine):
            severities = severities_by_stall.setdefault(
                (line.stall, line.since, line.connection_id, line.request_offset), []
            )
            if line.severity not in severities:
                severities.append(line.severity)
                assert isinstance(previous, FindingLine)
                assert (previous.severity, previous.group_id, previous.hint) == (
                    line.severity,
                    line.group_id,
                    line.hint,
                )
                assert previous.message == f"group {line.group_id!r}: {line.message}"
                assert previous.offset == line.request_offset
    assert sum(map(len, severities_by_stall.values())) == sum(isinstance(line, FindingLine) for line in written_lines)


def test_stall_line_has_members_broker_and_error() -> None:
    lines, now = build_case("rejected_member_rejoins")
    [stall] = last_line_of_each_stall(recorded_stalls(lines, now))
    assert (stall.stall, stall.error_name, stall.times) == ("refused", "ILLEGAL_GENERATION", 4)
    assert (stall.waiting, stall.waiting_ids, stall.blamed_ids) == (["a 5dc891"], ["a" + TAIL], ["a" + TAIL])
    assert (stall.server, stall.group_id) == ("b1:9092", "rejected_member_rejoins")


def test_stalls_are_written_as_time_passes_and_at_the_end() -> None:
    inspector = Inspector("n-1")
    inspector.open(1, "10.0.0.1:4000", "b1:9092", at=BEGAN)
    join = request("JoinGroup", 5, {"group_id": "g", "member_id": "m", "protocol_type": "consumer"})
    lines = inspector.receive_data(1, Direction.REQUEST, join, at=BEGAN)
    for second in range(1, 9):
        lines += inspector.tick(at=BEGAN + second * SECOND)
    lines += inspector.close_all(at=BEGAN + 9 * SECOND, how="capture ended")
    stalls = [line for line in lines if isinstance(line, StallLine)]
    assert [(stall.stall, stall.duration_us) for stall in stalls] == [
        ("join-waits", 6_000_000),
        ("join-waits", 9_000_000),
    ]
    assert {(stall.connection_id, stall.request_offset, stall.until) for stall in stalls} == {("n-1-1", 0, None)}
    assert isinstance(lines[-1], StallLine)


def test_internal_error_in_group_tracking_does_not_stop_the_inspection(
    monkeypatch: pytest.MonkeyPatch, internal_errors: list[Failure]
) -> None:
    monkeypatch.setattr("kproxy.inspection.stall_lines.ongoing_stalls", lambda group, at: 1 / 0)
    inspector = Inspector("n-1")
    inspector.open(1, "10.0.0.1:4000", "b1:9092", at=BEGAN)
    join = request("JoinGroup", 5, {"group_id": "g", "member_id": "m", "protocol_type": "consumer"})
    inspector.receive_data(1, Direction.REQUEST, join, at=BEGAN)
    assert not internal_errors
    [finding] = inspector.tick(at=BEGAN + SECOND)
    assert isinstance(finding, FindingLine)
    assert finding.code == "K007"
    assert inspector.receive_data(1, Direction.REQUEST, join, at=BEGAN + SECOND)


@pytest.mark.parametrize(("now", "is_over"), [(26, False), (60, True)])
def test_disturbance_ends_when_the_process_is_inactive(now: float, is_over: bool) -> None:
    story = GroupStory("g")
    for generation in range(1, 8):
        story.join(3 * generation, "a", generation=generation)
    lines = sorted(story.lines, key=lambda line: line.ts)
    written_lines = recorded_with_findings(lines, BEGAN + int(now * SECOND))
    assert [line.code for line in written_lines if isinstance(line, FindingLine)] == ["G015"]
    stalls = [line for line in written_lines if isinstance(line, StallLine) and line.stall == "disturbed"]
    assert [stall.until is not None for stall in stalls][-1] is is_over
    assert all(stall.until is None for stall in stalls[:-1])


def _end_connection_of_blocked_member(story: GroupStory) -> None:
    story.close_connection(25, "b", by=None)


def _return_lost_member(story: GroupStory) -> None:
    story.close_connection(9.5, "b", by="server")
    story.send_heartbeats(25, 40, "b")


@pytest.mark.parametrize(
    ("continue_story", "code"), [(_end_connection_of_blocked_member, "G006"), (_return_lost_member, "G007")]
)
def test_stall_that_resolves_has_an_end_and_is_not_ongoing(
    continue_story: Callable[[GroupStory], None], code: str
) -> None:
    story = GroupStory("g")
    story.join(0, "a", "b")
    story.send_heartbeats(1, 9.2, "a", "b")
    story.send_heartbeats(10, 40, "a")
    continue_story(story)
    lines = sorted(story.lines, key=lambda line: line.ts)
    written_lines = recorded_with_findings(lines, BEGAN + 40 * SECOND)
    assert code in {line.code for line in written_lines if isinstance(line, FindingLine)}
    [*_, last_stall] = [line for line in written_lines if isinstance(line, StallLine)]
    assert last_stall.until is not None
    causes = Causes()
    for line in written_lines:
        causes.add(line)
    assert not any(cause.lasts for cause in causes.verdict())


def test_stall_finding_names_the_api_of_its_request() -> None:
    lines, now = build_case("leader_is_not_seen")
    findings = [line for line in recorded_with_findings(lines, now) if isinstance(line, FindingLine)]
    [request_line] = [line for line in lines if isinstance(line, RequestLine) and line.offset == 200]
    assert {(line.api, line.api_version, line.correlation_id) for line in findings} == {
        (request_line.api, request_line.api_version, request_line.correlation_id)
    }
