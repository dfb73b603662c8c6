"""The tap's messages as trace lines: what a restart leaves unknown, and why TLS failed."""

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
def messages() -> MessageInspection:
    inspector = Inspector("node-1")
    return MessageInspection(inspector, ProgressLog(None, inspector), sample=None, activity=InspectorActivity())


@pytest.mark.parametrize("restarted", [False, True])
def test_after_a_restart_the_next_byte_may_be_in_the_middle_of_a_frame(
    messages: MessageInspection, restarted: bool
) -> None:
    gap = tap_messages.TapGap(1, Direction.REQUEST, AT, 100, 0, restarted=restarted)
    rest = tap_messages.TapData(1, Direction.REQUEST, AT, b"\xff" * 9 + FRAME + FRAME)
    end = tap_messages.Close(1, AT, None, "fin", 0, 0)
    lines = [line for message in (OPEN, gap, rest, end) for line in messages.lines(message)]
    assert bool([line for line in lines if isinstance(line, RequestLine)]) == restarted


def test_connections_that_came_and_went_are_counted(messages: MessageInspection) -> None:
    for connections in (1, 2):
        messages.lines(tap_messages.Missed(AT, connections, 10))
    assert messages.missed == 3


def test_a_failure_of_tls_is_reported_with_the_flag_that_mends_it(messages: MessageInspection) -> None:
    opened = messages.lines(OPEN._replace(tls=True))
    failed = tap_messages.TapTlsFailed(1, AT, "server", "proxy", "unknown_ca", None, "")
    [found] = [line for line in [*opened, *messages.lines(failed)] if isinstance(line, FindingLine)]
    assert found.hint == "pass the CA of the broker's certificate with --upstream-ca"
