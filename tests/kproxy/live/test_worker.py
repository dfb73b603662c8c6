"""Which lines a worker of `--inspectors N` encodes itself."""

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
    """Return the line of the second request (the first one has a finding) and the number of counted frames."""
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


def test_response_to_a_request_with_findings_is_sent_as_a_line() -> None:
    """The verdict needs the line: it ends a wait, or shows that the broker tolerates the request."""
    worker = Worker(
        Inspector("node-1", partial=True), encodings=[Detail.SUMMARY], sample=None, activity=InspectorActivity()
    )

    def data_message(direction: Direction, frame: bytes, at: int = AT) -> tap_messages.TapData:
        return tap_messages.TapData(1, direction, at, frame)

    def are_unencoded(*messages: tap_messages.Message) -> list[bool]:
        """Return whether the line of each frame is sent unencoded."""
        replies = worker.replies(list(messages)).replies
        return [isinstance(line, ResponseLine) for reply in replies for line in reply.lines]

    frames = [request("ListGroups", 2, {}, correlation_id=number) for number in range(3)]
    frames[0] = (len(frames[0]) - 3).to_bytes(4) + frames[0][4:] + b"!"  # L001
    requests = [data_message(Direction.REQUEST, frame) for frame in frames]
    response_messages = [
        data_message(Direction.RESPONSE, response("ListGroups", 2, {"groups": []}, correlation_id=number))
        for number in range(3)
    ]
    worker.replies([OPEN, requests[0]])
    assert are_unencoded(response_messages[0]) == [True]
    worker.replies([requests[1]])
    assert are_unencoded(response_messages[1]) == [False]
    worker.replies([requests[2]])
    [tick] = worker.replies([tap_messages.Query(AT + 10 * SECOND, TICK)]).replies
    assert [line.code for line in tick.lines if isinstance(line, FindingLine)] == ["C020"]
    assert are_unencoded(response_messages[2]) == [True]


def test_response_to_a_late_request_is_sent_as_a_line() -> None:
    worker = Worker(
        Inspector("node-1", partial=True), encodings=[Detail.SUMMARY], sample=None, activity=InspectorActivity()
    )
    message = tap_messages.TapData(1, Direction.REQUEST, AT, request("ListGroups", 2, {}))
    [_, _, reply] = worker.replies([OPEN, message, tap_messages.Query(AT + 6 * SECOND, WAITING)]).replies
    [late_request] = [wait.request for wait in reply.value]
    response_line = ResponseLine(
        v=1, ts=late_request.ts, connection_id=late_request.connection_id, client=late_request.client,
        server=late_request.server, size=9, offset=0,
        request_offset=late_request.offset,
    )  # fmt: skip
    assert worker._encoded_line(response_line) is response_line
    assert isinstance(
        worker._encoded_line(response_line), bytes
    )  # the wait is over, so a second response needs no line


def _new_worker() -> Worker:
    return Worker(
        Inspector("node-1", partial=True), encodings=[Detail.SUMMARY], sample=None, activity=InspectorActivity()
    )


def _request_with_finding(correlation_id: int) -> bytes:
    """Return a request with one extra byte, which has a finding."""
    frame = request("ListGroups", 2, {}, correlation_id=correlation_id)
    return (len(frame) - 3).to_bytes(4) + frame[4:] + b"!"


def test_batched_messages_get_the_same_replies_as_single_ones() -> None:
    """Each reply has the lines of its message, with their causes, and the lines that were due before it."""
    second_open = OPEN._replace(connection_id=2, client="10.0.0.3:5")
    late_at = AT + 120 * SECOND
    data_fields = [
        (1, Direction.REQUEST, AT, _request_with_finding(1) + request("ListGroups", 2, {}, correlation_id=2)),
        (2, Direction.REQUEST, AT + SECOND, request("Metadata", 1, {"topics": []}, correlation_id=1)[:9]),
        (1, Direction.RESPONSE, AT, response("ListGroups", 2, {"groups": []}, correlation_id=1)),
        (2, Direction.REQUEST, late_at, request("Metadata", 1, {"topics": []}, correlation_id=1)[9:]),
        (2, Direction.REQUEST, late_at, _request_with_finding(2)),
        (1, Direction.RESPONSE, late_at + SECOND, response("ListGroups", 2, {"groups": []}, correlation_id=9)),
        (1, Direction.REQUEST, late_at + SECOND, request("ListGroups", 2, {}, correlation_id=3)),
    ]
    messages = [OPEN, second_open, *(tap_messages.TapData(*fields) for fields in data_fields)]

    one_by_one, batched = _new_worker(), _new_worker()
    single_results = [one_by_one.replies([message]) for message in messages]
    batched_result = batched.replies(messages)
    expected = [reply for result in single_results for reply in result.replies]
    assert list(map(repr, batched_result.replies)) == list(map(repr, expected))
    assert [len(reply.causes) for reply in batched_result.replies] == [0, 0, 1, 0, 0, 3, 0, 1, 0]
    codes = [line.code for reply in batched_result.replies for line in reply.lines if isinstance(line, FindingLine)]
    assert codes[:3] == ["C020", "C004", "M005"]  # due before the bytes of the other connection
    assert batched_result.progress.keys() == {1, 2}
    assert batched_result.progress == {
        number: progress for result in single_results for number, progress in result.progress.items()
    }


def test_batch_is_decoded_before_its_first_frame_is_inspected(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    receive, judge = Inspector.receive, Inspector.judge

    def record_receive(inspector: Inspector, *args: Any, **kwargs: Any) -> list[Line]:
        steps.append("decoded")
        return receive(inspector, *args, **kwargs)

    def record_judge(inspector: Inspector, received: Received) -> list[Line]:
        steps.extend(["judged"] * len(received))
        return judge(inspector, received)

    worker = _new_worker()
    worker.replies([OPEN])
    monkeypatch.setattr(Inspector, "receive", record_receive)
    monkeypatch.setattr(Inspector, "judge", record_judge)
    frames = [request("ListGroups", 2, {}, correlation_id=number) for number in range(3)]
    worker.replies([tap_messages.TapData(1, Direction.REQUEST, AT, frame) for frame in frames])
    assert steps == ["decoded"] * 3 + ["judged"] * 3


def test_summary_line_is_sent_as_bytes() -> None:
    line, counted = second_line("ListGroups", {}, Detail.SUMMARY, Detail.SUMMARY)
    assert type(line) is bytes
    assert counted


@pytest.mark.parametrize(
    ("detail", "encodings"),
    [
        (Detail.SUMMARY, [Detail.SUMMARY]),  # a line about a group
        (Detail.FULL, [Detail.FULL]),
        (Detail.FULL, [Detail.FULL, Detail.SUMMARY]),
        (Detail.FULL, [Detail.SUMMARY]),  # `-q -v` needs more than a trace of `--detail summary`
    ],
)
def test_line_is_sent_with_the_required_encodings(detail: Detail, encodings: list[Detail]) -> None:
    line, counted = second_line("Heartbeat", {"group_id": "g"}, detail, *encodings)
    assert isinstance(line, SharedLine)
    assert line.in_group
    assert set(line._encodings) == set(encodings)
    assert counted


@pytest.mark.parametrize(
    ("group", "encodings"),
    [("g", []), ("back\\slash", [Detail.SUMMARY]), ("not \udcff UTF-8", [Detail.SUMMARY])],
)
def test_line_that_does_not_round_trip_is_sent_unencoded(group: str, encodings: list[Detail]) -> None:
    line, counted = second_line("Heartbeat", {"group_id": group}, Detail.SUMMARY, *encodings)
    assert isinstance(line, RequestLine)
    assert line.group_id == group
    assert not counted


def test_line_that_cannot_be_encoded_is_sent_unencoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_line: Line) -> bytes:
        raise OverflowError("integer out of range")

    monkeypatch.setattr(shared_line, "encode_line", fail)
    line, counted = second_line("Heartbeat", {"group_id": "g"}, Detail.FULL, Detail.FULL)
    assert isinstance(line, RequestLine)
    assert not counted
