"""A worker of `--inspectors N`: which of its lines it encodes itself."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector, Received
from kproxy.live.worker import TICK, WAITING, AnyLine, Worker
from kproxy.proxy import tap_messages
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace import shared_line
from kproxy.trace.lines import Detail, FindingLine, Line, RequestLine, ResponseLine
from kproxy.trace.shared_line import SharedLine
from tests.kproxy.frames import request, response

AT = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
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


def test_the_response_to_a_request_with_findings_is_sent_as_a_line() -> None:
    """The verdict needs it: it ends what waits for it, or shows that brokers tolerate the request."""
    worker = Worker(
        Inspector("node-1", partial=True), encodings=[Detail.SUMMARY], sample=None, activity=InspectorActivity()
    )

    def data(direction: Direction, frame: bytes, at: int = AT) -> tap_messages.TapData:
        return tap_messages.TapData(1, direction, at, frame)

    def responses(*messages: tap_messages.Message) -> list[bool]:
        """Whether each frame's line is sent as one, and not encoded."""
        replies = worker.replies(list(messages)).replies
        return [isinstance(line, ResponseLine) for reply in replies for line in reply.lines]

    frames = [request("ListGroups", 2, {}, correlation_id=number) for number in range(3)]
    frames[0] = (len(frames[0]) - 3).to_bytes(4) + frames[0][4:] + b"!"  # L001
    asked = [data(Direction.REQUEST, frame) for frame in frames]
    answers = [
        data(Direction.RESPONSE, response("ListGroups", 2, {"groups": []}, correlation_id=number))
        for number in range(3)
    ]
    worker.replies([OPEN, asked[0]])
    assert responses(answers[0]) == [True]
    worker.replies([asked[1]])
    assert responses(answers[1]) == [False]
    worker.replies([asked[2]])
    [late] = worker.replies([tap_messages.Query(AT + 10 * SECOND, TICK)]).replies
    assert [line.code for line in late.lines if isinstance(line, FindingLine)] == ["C020"]
    assert responses(answers[2]) == [True]


def test_the_response_to_a_late_request_is_sent_as_a_line_also_if_nothing_else_is_found_in_it() -> None:
    worker = Worker(
        Inspector("node-1", partial=True), encodings=[Detail.SUMMARY], sample=None, activity=InspectorActivity()
    )
    asked = tap_messages.TapData(1, Direction.REQUEST, AT, request("ListGroups", 2, {}))
    [_, _, reply] = worker.replies([OPEN, asked, tap_messages.Query(AT + 6 * SECOND, WAITING)]).replies
    [late] = [each.request for each in reply.value]
    answer = ResponseLine(
        v=1, ts=late.ts, connection_id=late.connection_id, client=late.client, server=late.server, size=9, offset=0,
        request_offset=late.offset,
    )  # fmt: skip
    assert worker._encoded(answer) is answer
    assert isinstance(worker._encoded(answer), bytes)  # the second one answers nothing


def _worker() -> Worker:
    return Worker(
        Inspector("node-1", partial=True), encodings=[Detail.SUMMARY], sample=None, activity=InspectorActivity()
    )


def _broken(correlation_id: int) -> bytes:
    """A request with a byte too many: it has a finding."""
    frame = request("ListGroups", 2, {}, correlation_id=correlation_id)
    return (len(frame) - 3).to_bytes(4) + frame[4:] + b"!"


def test_messages_that_arrive_together_get_the_same_replies_as_one_by_one() -> None:
    """Each reply has the lines of its own message, with their causes, and what was due before it."""
    other = OPEN._replace(connection_id=2, client="10.0.0.3:5")
    late = AT + 120 * SECOND
    sent = [
        (1, Direction.REQUEST, AT, _broken(1) + request("ListGroups", 2, {}, correlation_id=2)),
        (2, Direction.REQUEST, AT + SECOND, request("Metadata", 1, {"topics": []}, correlation_id=1)[:9]),
        (1, Direction.RESPONSE, AT, response("ListGroups", 2, {"groups": []}, correlation_id=1)),
        (2, Direction.REQUEST, late, request("Metadata", 1, {"topics": []}, correlation_id=1)[9:]),
        (2, Direction.REQUEST, late, _broken(2)),
        (1, Direction.RESPONSE, late + SECOND, response("ListGroups", 2, {"groups": []}, correlation_id=9)),
        (1, Direction.REQUEST, late + SECOND, request("ListGroups", 2, {}, correlation_id=3)),
    ]
    messages = [OPEN, other, *(tap_messages.TapData(*each) for each in sent)]

    one_by_one, together = _worker(), _worker()
    single = [one_by_one.replies([message]) for message in messages]
    found = together.replies(messages)
    expected = [reply for each in single for reply in each.replies]
    assert list(map(repr, found.replies)) == list(map(repr, expected))
    assert [len(reply.causes) for reply in found.replies] == [0, 0, 1, 0, 0, 3, 0, 1, 0]
    codes = [line.code for reply in found.replies for line in reply.lines if isinstance(line, FindingLine)]
    assert codes[:3] == ["C020", "C004", "M005"]  # were due, before the bytes of the other connection
    assert found.progress.keys() == {1, 2}
    assert found.progress == {number: progress for each in single for number, progress in each.progress.items()}


def test_what_arrives_together_is_decoded_before_the_first_frame_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    receive, judge = Inspector.receive, Inspector.judge

    def noted_receive(inspector: Inspector, *args: Any, **named: Any) -> list[Line]:
        steps.append("decoded")
        return receive(inspector, *args, **named)

    def noted_judge(inspector: Inspector, received: Received) -> list[Line]:
        steps.extend(["judged"] * len(received))
        return judge(inspector, received)

    worker = _worker()
    worker.replies([OPEN])
    monkeypatch.setattr(Inspector, "receive", noted_receive)
    monkeypatch.setattr(Inspector, "judge", noted_judge)
    frames = [request("ListGroups", 2, {}, correlation_id=number) for number in range(3)]
    worker.replies([tap_messages.TapData(1, Direction.REQUEST, AT, frame) for frame in frames])
    assert steps == ["decoded"] * 3 + ["judged"] * 3


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
