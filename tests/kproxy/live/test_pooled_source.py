"""How the source of `--inspectors` handles replies from workers, which run in the process of the test."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterator
from pathlib import Path

import pytest

from dissectors.connections.events import Direction
from dissectors.failures import Failure
from kproxy.inspection.inspector import Inspector
from kproxy.live import worker, worker_pool
from kproxy.live.options import InspectorOptions
from kproxy.live.pooled_source import PooledSource
from kproxy.live.sink import InspectionSink
from kproxy.live.worker import OPEN, TICK, Reply, Worker, WorkerTick
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions
from kproxy.outputs.run_summary import RunSummary
from kproxy.proxy import tap_messages
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.encoding import parse_line
from kproxy.trace.lines import Detail, FindingLine, OpenLine, RequestLine
from kproxy.trace.reader import trace_files
from tests.kproxy.frames import request, response
from tests.kproxy.live.local_worker import LocalWorker

AT = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
OPEN_MESSAGE = tap_messages.Open(1, AT, "10.0.0.1:5", "10.0.0.2:9092", "127.0.0.1:9092", tls=False)


def data_message(number: int, correlation_id: int = 0) -> tap_messages.TapData:
    frame = request("Heartbeat", 3, {"group_id": "g"}, correlation_id=correlation_id)
    return tap_messages.TapData(number, Direction.REQUEST, AT, frame)


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InspectionSink]:
    monkeypatch.setattr(worker_pool, "WorkerProcess", LocalWorker)
    monkeypatch.setattr(LocalWorker, "encodings", (Detail.SUMMARY,))
    monkeypatch.setattr(os, "kill", lambda *_: None)
    options = InspectorOptions(OutputOptions(quiet=True), Selection(), Detail.SUMMARY, tmp_path, workers=2)
    with selectors.DefaultSelector() as selector:
        sink = InspectionSink(options, tap_messages.Hello(AT, "node", 1, [], AT), selector)
        yield sink
        sink.close()


def source_of(sink: InspectionSink) -> PooledSource:
    assert isinstance(sink._source, PooledSource)
    return sink._source


def tick_reply(pid: int, in_flight: int) -> Reply:
    return Reply(value=WorkerTick(pid, in_flight, RunSummary()))


def test_requests_in_flight_are_summed_over_current_workers(
    sink: InspectionSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = tap_messages.Query(AT, TICK)
    pids = [7, 8]
    monkeypatch.setattr(worker_pool.WorkerPool, "pids", property(lambda _pool: pids))
    for reply in (tick_reply(7, 2), tick_reply(8, 3), tick_reply(7, 4)):
        source_of(sink)._on_reply(query, reply, ())
    assert source_of(sink).in_flight == 7
    pids[0] = 9  # process 9 has replaced process 7 and has its connections and requests
    sink.tick()
    source_of(sink)._on_reply(query, tick_reply(9, 4), ())
    assert source_of(sink).in_flight == 7


def test_invalid_message_is_a_finding_and_others_are_inspected(
    sink: InspectionSink, tmp_path: Path, internal_errors: list[Failure]
) -> None:
    for message in (OPEN_MESSAGE, data_message(99), data_message(1)):  # connection 99 was never opened
        sink.observe(message)
    source_of(sink).watched.drain()
    sink.flush()
    lines = [parse_line(line) for path in trace_files(tmp_path) for line in path.read_bytes().splitlines()]
    assert [type(line) for line in lines] == [FindingLine, OpenLine, RequestLine]
    assert [error.step for error in internal_errors] == ["inspecting a message of the relay"]


def test_verdict_considers_responses_to_findings(sink: InspectionSink) -> None:
    frames = [request("ListGroups", 2, {}, correlation_id=number) for number in (1, 2)]
    frames[0] = (len(frames[0]) - 3).to_bytes(4) + frames[0][4:] + b"!"  # L001
    responses = [response("ListGroups", 2, {"groups": []}, correlation_id=number) for number in (1, 2)]

    def verdict(*messages: tap_messages.Message) -> dict[str, tuple[int, bool]]:
        for message in messages:
            source_of(sink).watched.put(message)
        source_of(sink).watched.drain()
        return {cause.finding.code: (cause.lasting, cause.is_harmless) for cause in sink._terminal.causes.verdict()}

    request_messages = [tap_messages.TapData(1, Direction.REQUEST, AT, frame) for frame in frames]
    response_messages = [
        tap_messages.TapData(1, Direction.RESPONSE, at, frame)
        for at, frame in zip((AT, AT + 7 * SECOND), responses, strict=True)
    ]
    assert verdict(OPEN_MESSAGE, request_messages[0]) == {"L001": (0, False)}
    assert verdict(response_messages[0], request_messages[1]) == {"L001": (0, True)}
    source_of(sink).watched.query(TICK, AT + 6 * SECOND)
    assert verdict()["C020"] == (1, False)
    assert sink.lasting() == {("C020", "warning"): 1}
    assert verdict(response_messages[1])["C020"] == (0, False)
    assert sink.lasting() == {}
    third_request = request("ListGroups", 2, {}, correlation_id=3)
    late_message = tap_messages.TapData(1, Direction.REQUEST, AT + 8 * SECOND, third_request)
    third_response = response("ListGroups", 2, {"groups": []}, correlation_id=3)
    verdict(late_message)
    source_of(sink).watched.query(TICK, AT + 20 * SECOND)
    assert verdict()["C020"] == (0, False)  # so far, it is only counted
    source_of(sink).local.at = AT + 20 * SECOND
    sink.tick()
    assert sink.lasting() == {("C020", "warning"): 1}
    assert verdict(tap_messages.TapData(1, Direction.RESPONSE, AT + 21 * SECOND, third_response))["C020"] == (0, False)


def test_no_worker_takes_a_response_for_late_while_frames_are_only_counted(
    sink: InspectionSink, tmp_path: Path
) -> None:
    opened = [OPEN_MESSAGE._replace(connection_id=number, client=f"10.0.0.{number}:5") for number in (1, 2, 3, 4)]
    sent = [data_message(number) for number in (1, 2, 3, 4)]
    for message in (*opened, *sent, tap_messages.Behind(AT + SECOND, True)):
        sink.observe(message)
    source_of(sink).watched.query(TICK, AT + 40 * SECOND)
    for number in (1, 2, 3):
        sink.observe(tap_messages.TapGap(number, Direction.RESPONSE, AT + 40 * SECOND, 90, 1))
    sink.observe(tap_messages.Behind(AT + 40 * SECOND, False))
    source_of(sink).watched.query(TICK, AT + 41 * SECOND)
    source_of(sink).watched.drain()
    sink.flush()
    lines = [parse_line(line) for path in trace_files(tmp_path) for line in path.read_bytes().splitlines()]
    late = [line.connection_id for line in lines if isinstance(line, FindingLine) and line.code in ("C004", "C020")]
    assert late == ["node-1-4", "node-1-4"]


def test_each_flush_sends_pending_messages_to_workers(sink: InspectionSink, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed_workers: list[LocalWorker] = []
    with monkeypatch.context() as patch:
        patch.setattr(LocalWorker, "send", lambda worker: flushed_workers.append(worker))
        sink.flush()
    assert len(flushed_workers) == 2


def test_worker_returns_a_limited_number_of_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_UNANSWERED", 3)
    limited_worker = Worker(Inspector("node-1", partial=True), encodings=(), sample=None, activity=InspectorActivity())
    messages: list[tap_messages.Message] = [
        OPEN_MESSAGE,
        *(data_message(1, number) for number in range(5)),
        tap_messages.Query(AT, OPEN),
    ]
    [(connection, waiting_requests)] = limited_worker.replies(messages).replies[-1].value
    assert connection.in_flight == 5
    assert [line.correlation_id for line in waiting_requests] == [0, 1, 2]
