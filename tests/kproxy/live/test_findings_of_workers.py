"""Findings that the sink of `--inspectors N` derives from all workers, which run in the process of the test."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector
from kproxy.live import pooled_source
from kproxy.live.options import InspectorOptions
from kproxy.live.sink import InspectionSink
from kproxy.live.worker import TICK, Worker
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions
from kproxy.proxy import tap_messages
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.lines import CloseLine, Detail, Line, RequestLine, ResponseLine, StallLine
from tests.kproxy.frames import request, response

AT = 1_700_000_000_000_000_000
HOUR = 3600 * 1_000_000_000
STRAY = response("Heartbeat", 0, {"error_code": 0}, correlation_id=9)  # C001: no request has this correlation id
JOIN = request("JoinGroup", 5, {"group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000})

#: Passes messages to a new worker and its replies to the sink; returns the lines that the sink takes.
Inspect: TypeAlias = Callable[..., list[Line]]


class FakePool:
    """A stand-in for a `WorkerPool`; the test creates the workers."""

    def __init__(self, *_: Any) -> None:
        self._ours, self._theirs = socket.socketpair()

    def fileno(self) -> int:
        return self._ours.fileno()

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


@pytest.fixture
def inspect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Inspect]:
    sink_lines: list[Line] = []
    monkeypatch.setattr(pooled_source, "WorkerPool", FakePool)
    monkeypatch.setattr(InspectionSink, "_take", lambda _, line: sink_lines.append(line.line))
    with selectors.DefaultSelector() as selector:
        options = InspectorOptions(OutputOptions(), Selection(), Detail.SUMMARY, workers=2)
        sink = InspectionSink(options, tap_messages.Hello(AT, "node", 1, [], AT), selector)
        source: Any = sink._source

        def run(*messages: tap_messages.Message) -> list[Line]:
            sink_lines.clear()
            worker = Worker(Inspector("node-1", partial=True), encodings=(), sample=None, activity=InspectorActivity())
            for message in messages:
                [reply] = worker.replies([message]).replies
                source._on_reply(message, reply, ())
            return [*sink_lines]

        yield run
        source.watched.close()


def open_message(number: int) -> tap_messages.Open:
    return tap_messages.Open(number, AT, f"10.0.0.{number}:5", "10.0.1.1:9092", "127.0.0.1:9092", tls=False)


def test_second_worker_to_find_a_root_cause_only_counts_it(inspect: Inspect) -> None:
    reported, repeated = [], []
    for number in (1, 2):
        unsolicited = tap_messages.TapData(number, Direction.RESPONSE, AT, STRAY)
        for line in inspect(
            open_message(number), unsolicited, unsolicited, tap_messages.Close(number, AT, "client", "fin", 0, 0)
        ):
            if isinstance(line, ResponseLine):
                reported.append([finding.code for finding in line.findings])
            elif isinstance(line, CloseLine):
                repeated.append([(finding.code, finding.count) for finding in line.repeated])
    assert reported == [["C001"], [], [], []]
    assert repeated == [[("C001", 1)], [("C001", 2)]]


def test_stall_is_reported_after_its_deadline(inspect: Inspect) -> None:
    join = tap_messages.TapData(1, Direction.REQUEST, AT, JOIN)
    lines = inspect(open_message(1), join, tap_messages.Query(AT + HOUR, TICK))
    assert [line.group_id for line in lines if isinstance(line, StallLine)] == ["g"]


def test_all_workers_report_a_shared_root_cause_once(inspect: Inspect) -> None:
    """V011 names each client software once, whichever client ids it has."""
    codes, repeated = [], []
    for number in (1, 2):
        fetch = request("Fetch", 2, {}, client_id=f"app-{number}")
        api_versions = request("ApiVersions", 3, {"client_software_name": "old", "client_software_version": "1"})
        requests = [tap_messages.TapData(number, Direction.REQUEST, AT, frame) for frame in (api_versions, fetch)]
        for line in inspect(open_message(number), *requests, tap_messages.Close(number, AT, "client", "fin", 0, 0)):
            if isinstance(line, RequestLine):
                codes += [finding.code for finding in line.findings if finding.code == "V011"]
            elif isinstance(line, CloseLine):
                repeated += [finding.count for finding in line.repeated if finding.code == "V011"]
    assert (codes, repeated) == (["V011"], [1])
