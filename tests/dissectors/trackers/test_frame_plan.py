"""Ordinary frames follow the plan of their API, version and direction; all others are examined."""

from __future__ import annotations

import sys
from types import FrameType

from dissectors import rules
from dissectors.connections.connection import Connection
from dissectors.connections.events import Direction, RequestReceived, ResponseReceived
from dissectors.trackers.state import SASL, ConnectionState, RunState
from dissectors.trackers.triggers import SLOW_LATENCY, FrameFlags
from kproxy.inspection.inspector import Inspector
from tests.dissectors.dialogue import HEARTBEAT, heartbeat, heartbeat_response, heartbeat_responses, heartbeats
from tests.kproxy.frames import request, response, with_length_prefix


class ObservedConnection:
    """A connection whose events are observed and checked."""

    def __init__(self) -> None:
        self.state = ConnectionState(RunState(rules.trackers()))
        self.connection = Connection()

    def client_sends(self, frame: bytes, at: int = 1) -> None:
        self._receive(Direction.REQUEST, frame, at)

    def server_sends(self, frame: bytes, at: int = 2) -> None:
        self._receive(Direction.RESPONSE, frame, at)

    def _receive(self, direction: Direction, data: bytes, at: int) -> None:
        for event in self.connection.receive_data(direction, data, at=at):
            assert isinstance(event, RequestReceived | ResponseReceived)
            self.state.observe(event)
            rules.check(event, self.state)


def test_second_ordinary_frame_of_a_kind_has_a_plan() -> None:
    observed = ObservedConnection()
    observed.client_sends(heartbeat(1))
    assert observed.state.plan is None
    assert observed.state.flags == FrameFlags.FIRST
    observed.client_sends(heartbeat(2))
    plan = observed.state.plan
    observed.client_sends(heartbeat(3))
    assert plan is not None
    assert observed.state.plan is plan
    assert observed.state.flags == 0


def test_late_response_has_no_plan() -> None:
    observed = ObservedConnection()
    observed.client_sends(heartbeats(1, 2, 3, 4))
    observed.server_sends(heartbeat_responses(1, 2))
    assert observed.state.plan is not None
    observed.server_sends(heartbeat_response(3), at=1 + SLOW_LATENCY)
    assert observed.state.plan is None
    assert observed.state.flags == FrameFlags.SLOW


def test_out_of_order_response_has_no_plan() -> None:
    observed = ObservedConnection()
    observed.client_sends(heartbeats(1, 2, 3, 4))
    observed.server_sends(heartbeat_responses(1, 2, 4))
    assert observed.state.plan is None
    assert observed.state.flags & FrameFlags.UNPAIRED


def test_error_response_has_no_plan() -> None:
    observed = ObservedConnection()
    observed.client_sends(heartbeats(1, 2, 3))
    observed.server_sends(heartbeat_responses(1, 2))
    observed.server_sends(response("Heartbeat", 0, {"error_code": 27}, correlation_id=3))
    assert observed.state.plan is None
    assert observed.state.flags == FrameFlags.REFUSED


def test_damaged_frame_has_no_plan_even_if_it_decodes() -> None:
    observed = ObservedConnection()
    observed.client_sends(heartbeats(1, 2))
    shortened = heartbeat(3)
    observed.client_sends((len(shortened) - 4 + 2).to_bytes(4, "big") + shortened[4:])
    [_, event] = observed.connection.lose_data(Direction.REQUEST, 2, at=1, reason="not captured", frames=0)
    assert isinstance(event, RequestReceived)
    assert event.damaged
    assert event.message.ordinary
    observed.state.observe(event)
    assert observed.state.plan is None
    assert observed.state.flags == FrameFlags.IRREGULAR


def test_frame_with_a_plan_updates_the_client_id() -> None:
    observed = ObservedConnection()
    observed.client_sends(heartbeats(1, 2))
    observed.client_sends(request("Heartbeat", 0, HEARTBEAT, correlation_id=3, client_id="another"))
    assert observed.state.plan is not None
    assert observed.state.client_id == "another"


def test_login_changes_the_flags_of_later_frames() -> None:
    observed = ObservedConnection()
    observed.client_sends(heartbeats(1, 2))
    observed.client_sends(request("SaslHandshake", 1, {"mechanism": "PLAIN"}, correlation_id=3))
    for correlation_id in (4, 5):
        observed.client_sends(heartbeat(correlation_id))
        assert observed.state.plan is not None
        assert observed.state.flags == SASL


def test_subscription_replaces_the_plan() -> None:
    observed = ObservedConnection()
    observed.client_sends(heartbeats(1, 2))
    old_plan = observed.state.plan
    observed.state.run.subscribe("S049")
    observed.client_sends(heartbeat(3))
    assert observed.state.plan is not None
    assert observed.state.plan is not old_plan


def test_header_without_client_id_is_ordinary() -> None:
    observed = ObservedConnection()
    for correlation_id in (1, 2, 3):
        shutdown = with_length_prefix(
            b"\0\7\0\0" + correlation_id.to_bytes(4, "big") + b"\0\0\0\1"
        )  # ControlledShutdown v0
        observed.client_sends(shutdown)
    assert observed.state.plan is not None
    assert observed.state.client_id is None


def test_ordinary_frame_needs_few_calls() -> None:
    inspector = Inspector("x")
    inspector.open(1, "client:1", "broker:9092", at=1)
    for correlation_id in (1, 2):
        inspector.receive_data(1, Direction.REQUEST, heartbeat(correlation_id), at=1)
        inspector.receive_data(1, Direction.RESPONSE, heartbeat_response(correlation_id), at=2)
    calls = []

    def record_call(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    chunk = heartbeat(3)
    previous_profiler = sys.getprofile()
    sys.setprofile(record_call)
    try:
        inspector.receive(1, Direction.REQUEST, chunk, at=3)
        inspector.flush()
    finally:
        sys.setprofile(previous_profiler)
    assert len(calls) <= 45, calls
