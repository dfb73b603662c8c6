"""A connection that another inspector has begun to inspect."""

import base64
from typing import Any

import pytest

from dissectors.connections.events import INSPECTOR_WAS_RESTARTED, Direction
from kproxy.inspection.inspected_connection import Progress
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import CloseLine, Detail, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine
from tests.kproxy.frames import framed, request, response

AT = 1_700_000_000_000_000_000
REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE


class Resumed:
    """One connection, inspected from here on."""

    def __init__(self, request_at: Progress, response_at: Progress, **options: Any) -> None:
        self.inspector = Inspector("web-1-77", **options)
        self.lines: list[Line] = self.inspector.open(5, "c:1", "s:2", at=AT, resumed=(request_at, response_at))

    def feed(self, direction: Direction, data: bytes) -> list[Line]:
        made = self.inspector.data(5, direction, data, at=AT)
        self.lines += made
        return made

    def lose(self, direction: Direction, size: int, frames: int) -> None:
        self.lines += self.inspector.lose(5, direction, size, at=AT, reason=INSPECTOR_WAS_RESTARTED, frames=frames)

    def findings(self) -> list[str]:
        return [
            finding.code
            for line in self.lines
            for finding in ([line] if isinstance(line, FindingLine) else getattr(line, "findings", []))
        ]


def exchange(number: int) -> tuple[bytes, bytes]:
    return (
        request("Heartbeat", 3, {"group_id": "g"}, correlation_id=number),
        response("Heartbeat", 3, {}, correlation_id=number),
    )


def test_it_continues_with_ids_offsets_and_sums() -> None:
    session = Resumed(Progress(1000, 10), Progress(700, 9))
    session.lose(REQUEST, 50, 1)
    asked, answered = exchange(3)
    [sent] = session.feed(REQUEST, asked)
    [got] = session.feed(RESPONSE, answered)
    opened, gap = session.lines[:2]
    assert isinstance(opened, OpenLine)
    assert (opened.connection_id, opened.midstream) == ("web-1-77-5", True)
    assert isinstance(gap, GapLine)
    assert (gap.bytes, gap.frames, gap.reason) == (50, 1, INSPECTOR_WAS_RESTARTED)
    assert isinstance(sent, RequestLine)
    assert isinstance(got, ResponseLine)
    assert (sent.offset, got.offset, got.request_offset) == (1050, 700, 1050)
    assert session.inspector.progress(5) == (Progress(1050 + len(asked), 12), Progress(700 + len(answered), 10))
    closed = session.inspector.close(5, at=AT)[-1]
    assert isinstance(closed, CloseLine)
    assert (closed.requests, closed.responses) == (12, 10)
    assert (closed.request_bytes, closed.response_bytes) == (1050 + len(asked), 700 + len(answered))
    assert session.inspector.progress(5) is None
    assert session.findings() == []


def test_responses_to_what_an_earlier_inspector_has_seen_cause_no_findings() -> None:
    session = Resumed(Progress(1000, 10), Progress(700, 9))
    for number in (1, 2):
        [got] = session.feed(RESPONSE, exchange(number)[1])
        assert isinstance(got, ResponseLine)
        assert (got.api, got.not_decoded) == (None, "its request was not captured")
    asked, answered = exchange(3)
    session.feed(REQUEST, asked)
    session.feed(RESPONSE, answered)
    session.inspector.close(5, at=AT)
    assert session.findings() == []


def test_progress_is_of_whole_frames() -> None:
    session = Resumed(Progress(0, 0), Progress(0, 0))
    asked, _ = exchange(1)
    session.feed(REQUEST, asked + asked[:9])
    assert session.inspector.progress(5) == (Progress(len(asked), 1), Progress(0, 0))


def test_where_no_boundaries_are_known_a_frame_is_looked_for() -> None:
    session = Resumed(Progress(1000, 0, at_frame=False), Progress(700, 0, at_frame=False))
    asked, answered = exchange(3)
    session.feed(REQUEST, b"\x07garbage" + asked)
    session.feed(RESPONSE, answered)
    frames = [line for line in session.lines if isinstance(line, RequestLine | ResponseLine)]
    assert [frame.offset for frame in frames] == [1008, 700]
    assert session.inspector.progress(5) == (Progress(1008 + len(asked), 1), Progress(700 + len(answered), 1))


@pytest.mark.parametrize("detail", list(Detail))
def test_a_password_of_a_login_that_is_under_way_is_withheld(detail: Detail) -> None:
    secret = b"\x00alice\x00alice-secret"
    session = Resumed(Progress(100, 2), Progress(100, 2), detail=detail)
    [token] = session.feed(REQUEST, framed(secret))
    assert isinstance(token, RequestLine)
    assert token.not_decoded == "SASL token outside Kafka's framing (SaslHandshake v0): withheld"
    session.feed(RESPONSE, framed(b""))
    asked, answered = exchange(3)
    [sent] = session.feed(REQUEST, asked)
    [got] = session.feed(RESPONSE, answered)
    assert isinstance(sent, RequestLine)
    assert isinstance(got, ResponseLine)
    assert (sent.api, got.api) == ("Heartbeat", "Heartbeat")
    text = str(session.lines)
    assert "alice-secret" not in text
    assert base64.b64encode(secret).decode() not in text
    assert session.findings() == []
