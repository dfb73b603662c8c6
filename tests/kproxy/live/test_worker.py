"""A worker of `--inspectors N`: which of its lines it encodes itself."""

from __future__ import annotations

import pytest

from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector
from kproxy.live.worker import GroupLine, Worker
from kproxy.proxy import tap_messages
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.lines import Detail, RequestLine
from tests.kproxy.frames import request

AT = 1_700_000_000_000_000_000
OPEN = tap_messages.Open(1, AT, "10.0.0.1:5", "10.0.0.2:9092", "127.0.0.1:9092", tls=False)
HEARTBEATS = [
    tap_messages.TapData(1, Direction.REQUEST, AT, request("Heartbeat", 3, {"group_id": "g"}, correlation_id=each))
    for each in (1, 2)
]


@pytest.mark.parametrize(
    ("detail", "kind"),
    [(Detail.SUMMARY, GroupLine), (Detail.FULL, RequestLine)],  # `-q -v` needs more than a trace of `--detail summary`
)
def test_a_line_with_more_than_a_summary_is_not_encoded(detail: Detail, kind: type) -> None:
    worker = Worker(Inspector("node-1", detail, partial=True), encodes=True, sample=None, activity=InspectorActivity())
    [_, _, second] = worker.replies([OPEN, *HEARTBEATS]).replies
    assert [type(line) for line in second.lines] == [kind]
