"""A line is encoded once at each detail that a consumer needs, whoever needs it, and at no other."""

from __future__ import annotations

import os
import selectors
import sys
from collections import Counter
from collections.abc import Callable
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
from kproxy.proxy import tap_messages
from kproxy.trace import encoding
from kproxy.trace.lines import Detail, Line
from tests.kproxy.control.raw import RawViewer
from tests.kproxy.frames import request, response
from tests.kproxy.live.local_worker import LocalWorker

AT = 1_700_000_000_000_000_000
QUIET, TEXT, JSON = OutputOptions(quiet=True), OutputOptions(), OutputOptions(json=True)
FILTERED = OutputOptions(json=True, filter=parse("api=Heartbeat"))
SUMMARY, FULL, RAW = Detail


def level(line: Any) -> Detail:
    return RAW if line.frame is not None else FULL if line.body is not None else SUMMARY


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, Detail]]:
    """How often lines of frames were encoded, by offset and kind, and by detail."""
    made: Counter[tuple[str, Detail]] = Counter()
    plain = msgspec.json.Encoder()

    class Encoder:
        def encode(self, line: Line) -> bytes:
            self._count(line)
            return plain.encode(line)

        def encode_into(self, line: Line, out: bytearray, at: int) -> None:
            self._count(line)
            plain.encode_into(line, out, at)

        def _count(self, line: Any) -> None:
            if (kind := type(line).__name__) in ("RequestLine", "ResponseLine"):
                made[f"{kind} {line.offset}", level(line)] += 1

    monkeypatch.setattr(encoding, "_ENCODER", Encoder())
    return made


def messages() -> list[tap_messages.Message]:
    found: list[tap_messages.Message] = [
        tap_messages.Open(1, AT, "10.0.0.1:5", "10.0.0.2:9092", "127.0.0.1:9092", tls=False)
    ]
    for number in range(3):
        asked = request("Heartbeat", 3, {"group_id": "g"}, correlation_id=number)
        answered = response("Heartbeat", 3, {}, correlation_id=number)
        found.append(tap_messages.TapData(1, Direction.REQUEST, AT, asked))
        found.append(tap_messages.TapData(1, Direction.RESPONSE, AT, answered))
    return found


Inspect = Callable[..., None]


@pytest.fixture(params=[1, 2], ids=["one inspector", "two"])
def inspect(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inspect:
    monkeypatch.setattr(worker_pool, "WorkerProcess", LocalWorker)
    monkeypatch.setattr(os, "kill", lambda *_: None)

    def inspected(
        output: OutputOptions, detail: Detail, *, traced: bool = True, watch: dict[str, Any] | None = None
    ) -> None:
        with ExitStack() as stack, ExitStack() as viewers:
            folder = stack.enter_context(TemporaryDirectory(prefix="k", dir="/tmp"))  # a path of a socket is short
            control = None if watch is None else open_socket(Path(folder) / "socket")
            options = InspectorOptions(
                output, Selection(), detail, tmp_path if traced else None, control=control, workers=request.param
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
            for message in messages():
                sink.observe(message)
            sink.flush()
            viewers.close()  # otherwise, the sink would wait until they have read the rest
            sink.close()

    return inspected


@pytest.mark.parametrize(
    ("output", "detail", "wanted", "options"),
    [
        (QUIET, SUMMARY, {SUMMARY}, {}),
        (QUIET, SUMMARY, {SUMMARY}, {"watch": {}}),
        (QUIET, SUMMARY, {SUMMARY}, {"watch": {"frames": True}}),
        (QUIET, FULL, {FULL}, {}),
        (QUIET, FULL, {FULL, SUMMARY}, {"watch": {}}),  # viewers that come later get summaries
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
def test_each_detail_once(
    inspect: Inspect,
    encoded: Counter[tuple[str, Detail]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    output: OutputOptions,
    detail: Detail,
    wanted: set[Detail],
    options: dict[str, Any],
) -> None:
    with (tmp_path / "stdout").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        inspect(output, detail, **options)
    assert {kind for _, kind in encoded} == wanted
    assert len(encoded) == 6 * len(wanted)
    assert set(encoded.values()) == {1}


def test_without_consumers_one_inspector_encodes_nothing(
    inspect: Inspect, encoded: Counter[tuple[str, Detail]], request: pytest.FixtureRequest
) -> None:
    inspect(TEXT, FULL, traced=False)
    several = "two" in request.node.callspec.id
    assert {kind for _, kind in encoded} == ({SUMMARY} if several else set())  # workers encode to send a line
