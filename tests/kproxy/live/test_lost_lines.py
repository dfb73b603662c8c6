"""Lines that were lost to a full disk in a killed inspector are reported by the next one."""

from __future__ import annotations

import errno
import selectors
from pathlib import Path

import pytest

from dissectors.connections.events import Direction
from kproxy.live.sink import InspectionSink, InspectorOptions
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions
from kproxy.proxy import tap_messages
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.trace.encoding import parse_line
from kproxy.trace.lines import Detail, GapLine
from kproxy.trace.reader import trace_files
from tests.kproxy.frames import request
from tests.kproxy.stories import BEGIN


def start_inspector(directory: Path, table: InspectedTable, *, restarts: int) -> InspectionSink:
    return InspectionSink(
        InspectorOptions(OutputOptions(), Selection(), Detail.SUMMARY, directory),
        tap_messages.Hello(BEGIN, "node", 1, [], BEGIN, restarts),
        selectors.DefaultSelector(),
        table=table,
    )


def observe(sink: InspectionSink, number: int, table: InspectedTable) -> None:
    """Observe a new connection and its request, which make two lines."""
    sink.observe(tap_messages.Open(number, BEGIN, "127.0.0.1:1", "127.0.0.1:9092", "listener", False, table.take()))
    sink.observe(tap_messages.TapData(number, Direction.REQUEST, BEGIN, request("Metadata", 12, {}, correlation_id=5)))
    sink.flush()


def test_next_inspector_reports_lost_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "no room")

    table = InspectedTable()
    first = start_inspector(tmp_path, table, restarts=0)
    with monkeypatch.context() as patch:
        patch.setattr("kproxy.trace.writer.os.write", fail)
        observe(first, 1, table)
    second = start_inspector(tmp_path, table, restarts=1)  # after the first one is killed
    observe(second, 2, table)
    assert table.lost_lines() == 0
    second.close()
    lines = [parse_line(line) for path in trace_files(tmp_path) for line in path.read_bytes().splitlines()]
    lost_counts = [line.frames for line in lines if isinstance(line, GapLine) and "could not be written" in line.reason]
    assert lost_counts == [2]
