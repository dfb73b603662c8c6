"""The backlog keeps lines for viewers that connect later."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from dissectors.connections.events import Direction
from kproxy.control.backlog import MAX_UNANSWERED, Backlog
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import Detail
from kproxy.trace.shared_line import SharedLine, with_frame
from tests.kproxy.frames import request, response

AT = 1_700_000_000_000_000_000
MS = 1_000_000


class InspectorWithBacklog:
    """An inspector with its backlog; its clock advances by one millisecond per event."""

    def __init__(self, limit: int = 1 << 20, detail: Detail = Detail.SUMMARY) -> None:
        self.inspector = Inspector("web-1-77", detail)
        self.backlog = Backlog(limit)
        self.published: list[bytes] = []
        self.now = AT

    def _publish(self, lines: list[Any]) -> None:
        self.now += MS
        for line in lines:
            self.published.append(SharedLine(line).encoded(Detail.SUMMARY))
            self.backlog.add(self.published[-1])

    def open(self, number: int) -> None:
        self._publish(self.inspector.open(number, f"10.0.0.1:{number}", "10.0.0.2:9092", at=self.now))

    def send_requests(self, number: int, *correlation_ids: int, **options: Any) -> bytes:
        requests = b"".join(
            request("Heartbeat", 3, {"group_id": "g"}, correlation_id=correlation_id)
            for correlation_id in correlation_ids
        )
        self._publish(self.inspector.receive_data(number, Direction.REQUEST, requests, at=self.now))
        return requests

    def send_responses(self, number: int, *correlation_ids: int) -> None:
        for correlation_id in correlation_ids:
            data = response("Heartbeat", 3, {}, correlation_id=correlation_id)
            self._publish(self.inspector.receive_data(number, Direction.RESPONSE, data, at=self.now))

    def lines(self, *, frames: bool = False) -> list[bytes]:
        return list(self.backlog.lines(self.inspector, frames=frames))


def line_summary(line: bytes) -> tuple[str, str, int | None]:
    fields = json.loads(line)
    return fields["kind"], fields["connection_id"].rpartition("-")[2], fields.get("correlation_id")


@pytest.mark.parametrize("detail", Detail)
def test_every_line_is_kept_unchanged_until_the_limit_is_reached(detail: Detail) -> None:
    proxy = InspectorWithBacklog(detail=detail)
    proxy.open(1)
    proxy.open(2)
    proxy.send_requests(1, 1, 2, 3)
    proxy.send_responses(1, 1)
    proxy.send_requests(2, 1)
    assert proxy.lines() == proxy.published


def test_open_connections_and_requests_precede_the_last_lines() -> None:
    proxy = InspectorWithBacklog(limit=2000)
    proxy.open(1)
    proxy.open(2)
    proxy.send_requests(2, 70)
    proxy.send_requests(1, 80, 81)
    proxy.send_responses(1, 81)
    for number in range(100):
        proxy.send_requests(1, number)
        proxy.send_responses(1, number)
    lines = proxy.lines()
    assert [line_summary(line) for line in lines[:4]] == [
        ("open", "1", None), ("open", "2", None), ("request", "2", 70), ("request", "1", 80)
    ]  # fmt: skip
    assert lines[4:] == proxy.published[-len(lines) + 4 :]
    assert 0 < sum(map(len, lines[4:])) <= 2000
    assert len(set(lines)) == len(lines)
    timestamps = [json.loads(line)["ts"] for line in lines]
    assert timestamps == sorted(timestamps)
    assert set(lines) <= set(proxy.published)  # including their findings
    assert b'"findings"' in b"".join(lines[:4])


def test_old_closed_connections_are_dropped() -> None:
    proxy = InspectorWithBacklog(limit=1000)
    proxy.open(1)
    proxy.send_requests(1, 70)
    proxy._publish(proxy.inspector.close(1, at=proxy.now))
    proxy.open(2)
    for number in range(50):
        proxy.send_requests(2, number)
        proxy.send_responses(2, number)
    lines = proxy.lines()
    assert line_summary(lines[0]) == ("open", "2", None)
    assert {json.loads(line)["connection_id"] for line in lines} == {"web-1-77-2"}


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_waiting_requests_include_frames_on_demand(limit: int) -> None:
    proxy = InspectorWithBacklog(limit=limit)
    proxy.open(1)
    sent_request = proxy.send_requests(1, 5)
    proxy.inspector.frames = True
    assert b'"frame"' not in b"".join(proxy.lines())
    [open_line, request_line] = proxy.lines(frames=True)
    assert b'"frame"' not in open_line
    assert base64.b64decode(json.loads(request_line)["frame"]) == sent_request


def test_only_the_oldest_waiting_requests_of_a_connection_are_listed() -> None:
    proxy = InspectorWithBacklog(limit=0)
    proxy.open(1)
    proxy.send_requests(1, *range(MAX_UNANSWERED + 5))
    assert [line_summary(line)[2] for line in proxy.lines()[1:]] == list(range(MAX_UNANSWERED))


def test_request_is_listed_once_even_without_its_finding() -> None:
    proxy = InspectorWithBacklog()
    proxy.open(1)
    proxy.send_requests(1, 5, 5)
    [open_line, first, second] = [json.loads(line) for line in proxy.published]
    assert second.pop("findings")
    proxy.backlog = Backlog()
    for line in (open_line, first, second):
        proxy.backlog.add(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    assert [json.loads(line) for line in proxy.lines()] == [open_line, first, second]


def test_backlog_is_empty_at_the_start() -> None:
    assert InspectorWithBacklog().lines() == []


def test_frame_is_added_as_a_column() -> None:
    line = b'{"kind":"request","v":1,"size":4}\n'
    assert json.loads(with_frame(line, "AAAA")) == {"kind": "request", "v": 1, "size": 4, "frame": "AAAA"}
    assert with_frame(line, "AAAA").endswith(b"}\n")
