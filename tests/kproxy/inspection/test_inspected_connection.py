"""A connection whose inspection an earlier inspector started."""

import base64
from typing import Any

import pytest

from dissectors.connections.events import INSPECTOR_WAS_RESTARTED, Direction
from kproxy.inspection.inspected_connection import Progress
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import CloseLine, Detail, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine
from tests.kproxy.frames import request, response, with_length_prefix

AT = 1_700_000_000_000_000_000
REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE


class ResumedConnection:
    """One connection whose inspection resumes in the middle."""

    def __init__(self, request_progress: Progress, response_progress: Progress, **options: Any) -> None:
        self.inspector = Inspector("web-1-77", **options)
        self.lines: list[Line] = self.inspector.open(
            5, "c:1", "s:2", at=AT, resumed=(request_progress, response_progress)
        )

    def feed(self, direction: Direction, data: bytes) -> list[Line]:
        take_new_lines = self.inspector.receive_data(5, direction, data, at=AT)
        self.lines += take_new_lines
        return take_new_lines

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


def test_resumed_inspection_continues_ids_offsets_and_totals() -> None:
    session = ResumedConnection(Progress(1000, 10), Progress(700, 9))
    session.lose(REQUEST, 50, 1)
    request_bytes, response_bytes = exchange(3)
    [request_line] = session.feed(REQUEST, request_bytes)
    [response_line] = session.feed(RESPONSE, response_bytes)
    open_line, gap = session.lines[:2]
    assert isinstance(open_line, OpenLine)
    assert (open_line.connection_id, open_line.midstream) == ("web-1-77-5", True)
    assert isinstance(gap, GapLine)
    assert (gap.bytes, gap.frames, gap.reason) == (50, 1, INSPECTOR_WAS_RESTARTED)
    assert isinstance(request_line, RequestLine)
    assert isinstance(response_line, ResponseLine)
    assert (request_line.offset, response_line.offset, response_line.request_offset) == (1050, 700, 1050)
    assert session.inspector.progress(5) == (
        Progress(1050 + len(request_bytes), 12),
        Progress(700 + len(response_bytes), 10),
    )
    close_line = session.inspector.close(5, at=AT)[-1]
    assert isinstance(close_line, CloseLine)
    assert (close_line.requests, close_line.responses) == (12, 10)
    assert (close_line.request_bytes, close_line.response_bytes) == (
        1050 + len(request_bytes),
        700 + len(response_bytes),
    )
    assert session.inspector.progress(5) is None
    assert session.findings() == []


def test_responses_to_requests_before_the_restart_cause_no_findings() -> None:
    session = ResumedConnection(Progress(1000, 10), Progress(700, 9))
    for number in (1, 2):
        [response_line] = session.feed(RESPONSE, exchange(number)[1])
        assert isinstance(response_line, ResponseLine)
        assert (response_line.api, response_line.not_decoded) == (None, "its request was not captured")
    request_bytes, response_bytes = exchange(3)
    session.feed(REQUEST, request_bytes)
    session.feed(RESPONSE, response_bytes)
    session.inspector.close(5, at=AT)
    assert session.findings() == []


def test_progress_counts_whole_frames() -> None:
    session = ResumedConnection(Progress(0, 0), Progress(0, 0))
    request_bytes, _ = exchange(1)
    session.feed(REQUEST, request_bytes + request_bytes[:9])
    assert session.inspector.progress(5) == (Progress(len(request_bytes), 1), Progress(0, 0))


def test_searches_for_a_frame_if_boundaries_are_unknown() -> None:
    session = ResumedConnection(Progress(1000, 0, at_frame=False), Progress(700, 0, at_frame=False))
    request_bytes, response_bytes = exchange(3)
    session.feed(REQUEST, b"\x07garbage" + request_bytes)
    session.feed(RESPONSE, response_bytes)
    frames = [line for line in session.lines if isinstance(line, RequestLine | ResponseLine)]
    assert [frame.offset for frame in frames] == [1008, 700]
    assert session.inspector.progress(5) == (
        Progress(1008 + len(request_bytes), 1),
        Progress(700 + len(response_bytes), 1),
    )


@pytest.mark.parametrize("detail", list(Detail))
def test_withholds_the_password_of_a_login_in_progress(detail: Detail) -> None:
    secret = b"\x00alice\x00alice-secret"
    session = ResumedConnection(Progress(100, 2), Progress(100, 2), detail=detail)
    [token] = session.feed(REQUEST, with_length_prefix(secret))
    assert isinstance(token, RequestLine)
    assert token.not_decoded == "SASL token outside Kafka's framing (SaslHandshake v0): withheld"
    session.feed(RESPONSE, with_length_prefix(b""))
    request_bytes, response_bytes = exchange(3)
    [request_line] = session.feed(REQUEST, request_bytes)
    [response_line] = session.feed(RESPONSE, response_bytes)
    assert isinstance(request_line, RequestLine)
    assert isinstance(response_line, ResponseLine)
    assert (request_line.api, response_line.api) == ("Heartbeat", "Heartbeat")
    text = str(session.lines)
    assert "alice-secret" not in text
    assert base64.b64encode(secret).decode() not in text
    assert session.findings() == []
