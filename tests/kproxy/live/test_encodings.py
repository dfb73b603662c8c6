"""A line is encoded once at each level of detail that consumers need, and at no other level."""

from __future__ import annotations

import json
import os
import selectors
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from dissectors.connections.events import Direction
from kproxy.control.control_socket import open_socket
from kproxy.filters import parse
from kproxy.live import worker_pool
from kproxy.live.options import InspectorOptions
from kproxy.live.sink import InspectionSink
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions
from kproxy.outputs.run_summary import RunSummary
from kproxy.proxy import tap_messages
from kproxy.trace import encoding
from kproxy.trace.lines import Detail, Line
from kproxy.trace.reader import trace_files
from tests.kproxy.control.raw import RawViewer
from tests.kproxy.frames import request, response
from tests.kproxy.live.local_worker import LocalWorker

AT = 1_700_000_000_000_000_000
QUIET, TEXT, JSON = OutputOptions(quiet=True), OutputOptions(), OutputOptions(json=True)
FILTERED = OutputOptions(json=True, filter=parse("api=Heartbeat"))
SUMMARY, FULL, RAW = Detail


def detail_of(line: Any) -> Detail:
    return RAW if line.frame is not None else FULL if line.body is not None else SUMMARY


@pytest.fixture
def encoding_counts(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, Detail]]:
    """Count the encodings of frame lines by kind and offset, and by detail."""
    counts: Counter[tuple[str, Detail]] = Counter()
    encoder = msgspec.json.Encoder()

    class Encoder:
        def encode(self, line: Line) -> bytes:
            self._count(line)
            return encoder.encode(line)

        def encode_into(self, line: Line, out: bytearray, at: int) -> None:
            self._count(line)
            encoder.encode_into(line, out, at)

        def _count(self, line: Any) -> None:
            if (kind := type(line).__name__) in ("RequestLine", "ResponseLine"):
                counts[f"{kind} {line.offset}", detail_of(line)] += 1

    monkeypatch.setattr(encoding, "_ENCODER", Encoder())
    return counts


def heartbeat_messages() -> list[tap_messages.Message]:
    messages: list[tap_messages.Message] = [
        tap_messages.Open(1, AT, "10.0.0.1:5", "10.0.0.2:9092", "127.0.0.1:9092", tls=False)
    ]
    for number in range(3):
        request_frame = request("Heartbeat", 3, {"group_id": "g"}, correlation_id=number)
        response_frame = response("Heartbeat", 3, {}, correlation_id=number)
        messages.append(tap_messages.TapData(1, Direction.REQUEST, AT, request_frame))
        messages.append(tap_messages.TapData(1, Direction.RESPONSE, AT, response_frame))
    return messages


Inspect = Callable[..., RunSummary]


@pytest.fixture(params=[1, 2], ids=["one inspector", "two"])
def inspect(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inspect:
    monkeypatch.setattr(worker_pool, "WorkerProcess", LocalWorker)
    monkeypatch.setattr(os, "kill", lambda *_: None)

    def run(
        output: OutputOptions,
        detail: Detail,
        *,
        traced: bool = True,
        watch: dict[str, Any] | None = None,
        selection: Selection = Selection(),  # noqa: B008  # it is immutable
        last: Iterable[tap_messages.Message] = (),
    ) -> RunSummary:
        with ExitStack() as stack, ExitStack() as viewers:
            directory = stack.enter_context(
                TemporaryDirectory(prefix="k", dir="/tmp")
            )  # the path of a socket must be short
            control = None if watch is None else open_socket(Path(directory) / "socket")
            options = InspectorOptions(
                output, selection, detail, tmp_path if traced else None, control=control, workers=request.param
            )
            monkeypatch.setattr(LocalWorker, "detail", detail)
            monkeypatch.setattr(LocalWorker, "encodings", options.encodings)
            selector = stack.enter_context(selectors.DefaultSelector())
            sink = InspectionSink(options, tap_messages.Hello(AT, "node", 1, [], AT), selector)
            if control is not None and watch:
                viewer = viewers.enter_context(RawViewer(control.path))
                viewer.send(do="watch", **watch)
                while not sink._control._watching:  # type: ignore[union-attr]
                    for key, events in selector.select():
                        key.data(events)
            for message in (*heartbeat_messages(), *last):
                sink.observe(message)
            sink.flush()
            viewers.close()  # otherwise, the sink would wait until they have read the rest
            sink.close()
            return sink._terminal.summary

    return run


@pytest.mark.parametrize(
    ("output", "detail", "expected", "options"),
    [
        (QUIET, SUMMARY, {SUMMARY}, {}),
        (QUIET, SUMMARY, {SUMMARY}, {"watch": {}}),
        (QUIET, SUMMARY, {SUMMARY}, {"watch": {"frames": True}}),
        (QUIET, FULL, {FULL}, {}),
        (QUIET, FULL, {FULL, SUMMARY}, {"watch": {}}),  # viewers that connect later get summaries
        (QUIET, FULL, {FULL, SUMMARY}, {"watch": {"frames": True}}),
        (QUIET, FULL, {FULL, SUMMARY}, {"watch": {"payloads": True}}),
        (QUIET, RAW, {RAW}, {}),
        (QUIET, RAW, {RAW, SUMMARY}, {"watch": {"frames": True}}),
        (TEXT, FULL, {FULL}, {}),
        (JSON, SUMMARY, {SUMMARY}, {"watch": {"backlog": True}}),
        (JSON, FULL, {FULL}, {}),
        (JSON, FULL, {FULL}, {"traced": False}),
        (FILTERED, FULL, {FULL, SUMMARY}, {"watch": {"frames": True}}),
    ],
)
def test_encodes_each_detail_once(
    inspect: Inspect,
    encoding_counts: Counter[tuple[str, Detail]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    output: OutputOptions,
    detail: Detail,
    expected: set[Detail],
    options: dict[str, Any],
) -> None:
    with (tmp_path / "stdout").open("w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        summary = inspect(output, detail, **options)
    assert summary.frames == 6  # no matter which process has counted them
    assert {detail for _, detail in encoding_counts} == expected
    assert len(encoding_counts) == 6 * len(expected)
    assert set(encoding_counts.values()) == {1}


def test_single_inspector_without_consumers_encodes_nothing(
    inspect: Inspect, encoding_counts: Counter[tuple[str, Detail]], request: pytest.FixtureRequest
) -> None:
    inspect(TEXT, FULL, traced=False)
    uses_workers = "two" in request.node.callspec.id
    assert {detail for _, detail in encoding_counts} == (
        {SUMMARY} if uses_workers else set()
    )  # workers encode to send a line


def test_json_has_neither_ignored_findings_nor_frames(
    inspect: Inspect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unsolicited = tap_messages.TapData(1, Direction.RESPONSE, AT, response("Heartbeat", 0, {}, correlation_id=99))
    with (tmp_path / "stdout").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        inspect(JSON, FULL, watch={"frames": True}, selection=Selection(ignore=["C"]), last=[unsolicited])
    printed_objects = [json.loads(line) for line in (tmp_path / "stdout").read_text().splitlines()]
    [trace_path] = trace_files(tmp_path)
    trace_objects = [json.loads(line) for line in trace_path.read_bytes().splitlines()]
    assert trace_objects[-2].pop("findings")[0]["code"] == "C001"
    assert trace_objects[-1].pop("repeated", None) is None
    assert printed_objects == trace_objects
    assert "frame" not in str(trace_objects)


@pytest.mark.parametrize(
    ("output", "traced", "has_viewers", "decodes_payloads", "expected"),
    [
        (QUIET, True, False, False, (FULL,)),
        (QUIET, True, True, False, (FULL, SUMMARY)),
        (QUIET, False, True, False, (SUMMARY,)),
        (QUIET, False, True, True, (FULL, SUMMARY)),  # for viewers that want payloads
        (TEXT, False, False, False, (SUMMARY,)),
        (JSON, False, False, False, (FULL,)),
        (FILTERED, True, True, False, ()),  # the filter reads values in bodies
        (OutputOptions(verbose=True), True, True, False, ()),  # so do rows
        (OutputOptions(verbose=True, quiet=True), True, False, False, (FULL,)),
    ],
)
def test_workers_encode_the_details_of_consumers(
    tmp_path: Path,
    output: OutputOptions,
    traced: bool,
    has_viewers: bool,
    decodes_payloads: bool,
    expected: tuple[Detail, ...],
) -> None:
    enabled: Any = object()
    options = InspectorOptions(
        output, Selection(), FULL, tmp_path if traced else None, control=enabled if has_viewers else None,
        record_values=enabled if decodes_payloads else None,
    )  # fmt: skip
    assert options.encodings == expected
