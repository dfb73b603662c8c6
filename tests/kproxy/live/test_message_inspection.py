"""Trace lines made from tap messages, after a restart and after a TLS failure."""

import pytest

from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector
from kproxy.live.message_inspection import MessageInspection
from kproxy.live.progress import ProgressLog
from kproxy.proxy import tap_messages
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.trace.lines import FindingLine, RequestLine
from tests.kproxy.frames import request

AT = 1_700_000_000_000_000_000
OPEN = tap_messages.Open(1, AT, "10.0.0.1:5", "10.0.0.2:9092", "127.0.0.1:9092", tls=False)
FRAME = request("Heartbeat", 0, {"group_id": "g"}, client_id="c")


@pytest.fixture
def inspection() -> MessageInspection:
    inspector = Inspector("node-1")
    return MessageInspection(inspector, ProgressLog(None, inspector), sample=None, activity=InspectorActivity())


@pytest.mark.parametrize("restarted", [False, True])
def test_searches_for_a_frame_only_after_a_restart(inspection: MessageInspection, restarted: bool) -> None:
    gap = tap_messages.TapGap(1, Direction.REQUEST, AT, 100, 0, restarted=restarted)
    data = tap_messages.TapData(1, Direction.REQUEST, AT, b"\xff" * 9 + FRAME + FRAME)
    close = tap_messages.Close(1, AT, None, "fin", 0, 0)
    lines = [line for message in (OPEN, gap, data, close) for line in inspection.lines(message)]
    assert bool([line for line in lines if isinstance(line, RequestLine)]) == restarted


def test_counts_connections_that_opened_and_closed_unseen(inspection: MessageInspection) -> None:
    for connections in (1, 2):
        inspection.lines(tap_messages.Missed(AT, connections, 10))
    assert inspection.missed_count == 3


def test_hint_of_a_tls_failure_names_the_option_that_fixes_it(inspection: MessageInspection) -> None:
    opening_lines = inspection.lines(OPEN._replace(tls=True))
    tls_failure = tap_messages.TapTlsFailed(1, AT, "server", "proxy", "unknown_ca", None, "")
    [finding] = [line for line in [*opening_lines, *inspection.lines(tls_failure)] if isinstance(line, FindingLine)]
    assert finding.hint == "pass the CA of the broker's certificate with --upstream-ca"
