"""What led up to now, for those who come later."""

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


class Proxy:
    """An inspector with its backlog; each thing happens a millisecond after the one before."""

    def __init__(self, limit: int = 1 << 20, detail: Detail = Detail.SUMMARY) -> None:
        self.inspector = Inspector("web-1-77", detail)
        self.backlog = Backlog(limit)
        self.told: list[bytes] = []
        self.now = AT

    def _take(self, lines: list[Any]) -> None:
        self.now += MS
        for line in lines:
            self.told.append(SharedLine(line).encoded(Detail.SUMMARY))
            self.backlog.add(self.told[-1])

    def open(self, number: int) -> None:
        self._take(self.inspector.open(number, f"10.0.0.1:{number}", "10.0.0.2:9092", at=self.now))

    def ask(self, number: int, *correlation_ids: int, **options: Any) -> bytes:
        asked = b"".join(request("Heartbeat", 3, {"group_id": "g"}, correlation_id=each) for each in correlation_ids)
        self._take(self.inspector.data(number, Direction.REQUEST, asked, at=self.now))
        return asked

    def answer(self, number: int, *correlation_ids: int) -> None:
        for each in correlation_ids:
            data = response("Heartbeat", 3, {}, correlation_id=each)
            self._take(self.inspector.data(number, Direction.RESPONSE, data, at=self.now))

    def lines(self, *, frames: bool = False) -> list[bytes]:
        return list(self.backlog.lines(self.inspector, frames=frames))


def what(line: bytes) -> tuple[str, str, int | None]:
    made = json.loads(line)
    return made["kind"], made["connection_id"].rpartition("-")[2], made.get("correlation_id")


@pytest.mark.parametrize("detail", Detail)
def test_everything_is_told_once_and_as_it_was_while_there_is_room(detail: Detail) -> None:
    proxy = Proxy(detail=detail)
    proxy.open(1)
    proxy.open(2)
    proxy.ask(1, 1, 2, 3)
    proxy.answer(1, 1)
    proxy.ask(2, 1)
    assert proxy.lines() == proxy.told


def test_what_is_open_is_told_before_the_last_lines_however_long_ago_it_began() -> None:
    proxy = Proxy(limit=2000)
    proxy.open(1)
    proxy.open(2)
    proxy.ask(2, 70)
    proxy.ask(1, 80, 81)
    proxy.answer(1, 81)
    for number in range(100):
        proxy.ask(1, number)
        proxy.answer(1, number)
    lines = proxy.lines()
    assert [what(line) for line in lines[:4]] == [
        ("open", "1", None), ("open", "2", None), ("request", "2", 70), ("request", "1", 80)
    ]  # fmt: skip
    assert lines[4:] == proxy.told[-len(lines) + 4 :]
    assert 0 < sum(map(len, lines[4:])) <= 2000
    assert len(set(lines)) == len(lines)
    stamps = [json.loads(line)["ts"] for line in lines]
    assert stamps == sorted(stamps)
    assert set(lines) <= set(proxy.told)  # with the findings that they had
    assert b'"findings"' in b"".join(lines[:4])


def test_what_was_closed_or_answered_long_ago_is_not_told() -> None:
    proxy = Proxy(limit=1000)
    proxy.open(1)
    proxy.ask(1, 70)
    proxy._take(proxy.inspector.close(1, at=proxy.now))
    proxy.open(2)
    for number in range(50):
        proxy.ask(2, number)
        proxy.answer(2, number)
    lines = proxy.lines()
    assert what(lines[0]) == ("open", "2", None)
    assert {json.loads(line)["connection_id"] for line in lines} == {"web-1-77-2"}


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_requests_that_wait_have_their_frames_for_who_wants_them(limit: int) -> None:
    proxy = Proxy(limit=limit)
    proxy.open(1)
    asked = proxy.ask(1, 5)
    proxy.inspector.frames = True
    assert b'"frame"' not in b"".join(proxy.lines())
    [opened, waiting] = proxy.lines(frames=True)
    assert b'"frame"' not in opened
    assert base64.b64decode(json.loads(waiting)["frame"]) == asked


def test_of_one_connection_the_oldest_that_wait_are_told() -> None:
    proxy = Proxy(limit=0)
    proxy.open(1)
    proxy.ask(1, *range(MAX_UNANSWERED + 5))
    assert [what(line)[2] for line in proxy.lines()[1:]] == list(range(MAX_UNANSWERED))


def test_a_request_is_told_once_although_its_finding_was_left_out() -> None:
    proxy = Proxy()
    proxy.open(1)
    proxy.ask(1, 5, 5)
    [opened, first, second] = [json.loads(line) for line in proxy.told]
    assert second.pop("findings")
    proxy.backlog = Backlog()
    for line in (opened, first, second):
        proxy.backlog.add(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    assert [json.loads(line) for line in proxy.lines()] == [opened, first, second]


def test_nothing_has_happened() -> None:
    assert Proxy().lines() == []


def test_a_frame_is_a_column_like_any_other() -> None:
    line = b'{"kind":"request","v":1,"size":4}\n'
    assert json.loads(with_frame(line, "AAAA")) == {"kind": "request", "v": 1, "size": 4, "frame": "AAAA"}
    assert with_frame(line, "AAAA").endswith(b"}\n")
