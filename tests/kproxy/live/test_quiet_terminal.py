"""With --quiet, hidden rows do not count towards the rate limit of a terminal."""

from __future__ import annotations

import selectors
import sys

import pytest

from dissectors.connections.events import Direction
from kproxy.live.sink import InspectionSink, InspectorOptions
from kproxy.outputs import rate_limit
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions
from kproxy.proxy import tap_messages
from kproxy.trace.lines import Detail
from tests.kproxy.frames import request
from tests.kproxy.stories import BEGIN


@pytest.mark.parametrize(("quiet", "is_shown"), [(True, True), (False, False)])
def test_quiet_terminal_shows_a_gap_after_many_frames(
    quiet: bool, is_shown: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(rate_limit, "BURST", 4)
    monkeypatch.setattr(rate_limit, "RATE", 0)
    options = InspectorOptions(OutputOptions(quiet=quiet), Selection(), Detail.SUMMARY)
    sink = InspectionSink(options, tap_messages.Hello(BEGIN, "node", 1, [], BEGIN), selectors.DefaultSelector())
    sink.observe(tap_messages.Open(1, BEGIN, "127.0.0.1:1", "127.0.0.1:9092", "listener", False))
    for number in range(5):
        frame = request("Metadata", 12, {}, correlation_id=number)
        sink.observe(tap_messages.TapData(1, Direction.REQUEST, BEGIN, frame))
    sink.observe(tap_messages.TapGap(1, Direction.REQUEST, BEGIN, 100, 1))
    assert ("100 bytes" in capsys.readouterr().out) is is_shown
