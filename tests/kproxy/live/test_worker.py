"""A worker of `--inspectors N`: which of its lines it encodes itself."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector
from kproxy.live.worker import TICK, AnyLine, Worker
from kproxy.proxy import tap_messages
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace import shared_line
from kproxy.trace.lines import Detail, Line, RequestLine
from kproxy.trace.shared_line import SharedLine
from tests.kproxy.frames import request

AT = 1_700_000_000_000_000_000
OPEN = tap_messages.Open(1, AT, "10.0.0.1:5", "10.0.0.2:9092", "127.0.0.1:9092", tls=False)


def second_line(api: str, body: dict[str, Any], detail: Detail, *encodings: Detail) -> tuple[AnyLine, int]:
    """The line of the second request, because the first one has a finding; and how many frames were counted."""
    worker = Worker(
        Inspector("node-1", detail, partial=True), encodings=encodings, sample=None, activity=InspectorActivity()
    )
    frames = [
        tap_messages.TapData(1, Direction.REQUEST, AT, request(api, 3, body, correlation_id=number))
        for number in (1, 2)
    ]
    [_, _, second, tick] = worker.replies([OPEN, *frames, tap_messages.Query(AT, TICK)]).replies
    [line] = second.lines
    return line, tick.value.summary.frames


def test_a_line_with_a_summary_alone_is_sent_as_its_bytes() -> None:
    line, counted = second_line("ListGroups", {}, Detail.SUMMARY, Detail.SUMMARY)
    assert type(line) is bytes
    assert counted


@pytest.mark.parametrize(
    ("detail", "encodings"),
    [
        (Detail.SUMMARY, [Detail.SUMMARY]),  # of a group
        (Detail.FULL, [Detail.FULL]),
        (Detail.FULL, [Detail.FULL, Detail.SUMMARY]),
        (Detail.FULL, [Detail.SUMMARY]),  # `-q -v` needs more than a trace of `--detail summary`
    ],
)
def test_a_line_is_sent_with_the_encodings_that_are_needed(detail: Detail, encodings: list[Detail]) -> None:
    line, counted = second_line("Heartbeat", {"group_id": "g"}, detail, *encodings)
    assert isinstance(line, SharedLine)
    assert line.in_group
    assert set(line._encodings) == set(encodings)
    assert counted


@pytest.mark.parametrize(
    ("group", "encodings"),
    [("g", []), ("back\\slash", [Detail.SUMMARY]), ("not \udcff UTF-8", [Detail.SUMMARY])],
)
def test_a_line_is_sent_that_would_not_be_the_same_when_parsed(group: str, encodings: list[Detail]) -> None:
    line, counted = second_line("Heartbeat", {"group_id": group}, Detail.SUMMARY, *encodings)
    assert isinstance(line, RequestLine)
    assert line.group_id == group
    assert not counted


def test_a_line_is_sent_that_cannot_be_encoded_for_the_sink_to_report_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_line: Line) -> bytes:
        raise OverflowError("integer out of range")

    monkeypatch.setattr(shared_line, "encode_line", fail)
    line, counted = second_line("Heartbeat", {"group_id": "g"}, Detail.FULL, Detail.FULL)
    assert isinstance(line, RequestLine)
    assert not counted
