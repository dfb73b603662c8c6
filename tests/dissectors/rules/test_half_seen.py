"""Rules with state report nothing about exchanges that they have seen only in part."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors import rules
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.hexdump import unhex
from dissectors.messages.message import api_layouts, read_request, read_response
from dissectors.schemas import api_by_name
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState, RunState
from dissectors.trackers.triggers import FrameFlags
from dissectors.wire.encode import encode
from tests.kproxy.frames import with_length_prefix
from tests.kproxy.stories import findings, to_encodable

PARTIAL_BATCH = "0000000000000005 00000100 12345678 01 00"
#: All flags are set, so that no rule is skipped.
ALL_FLAGS = sum(FrameFlags)

RESPONSES: dict[str, dict[str, Any]] = {
    "Fetch v2": {"responses": [{"topic": "t", "partitions": [{"records": PARTIAL_BATCH}]}]},
    "Fetch v11": {"session_id": 7, "responses": [{"topic": "t", "partitions": [{"error_code": 1}]}]},
    "Produce v7": {"responses": [{"name": "t", "partition_responses": [{"error_code": 45}, {"error_code": 47}]}]},
    "FindCoordinator v2": {"error_code": 15},
    "JoinGroup v5": {"member_id": "m-1", "generation_id": 1},
    "SyncGroup v3": {},
    "Heartbeat v3": {"error_code": 22},
    "EndTxn v1": {"error_code": 47},
}


@pytest.mark.parametrize("api", RESPONSES)
def test_response_to_an_undecodable_request_is_not_judged(api: str) -> None:
    name, version = api.split(" v")
    api_entry = api_by_name(name)
    layouts = api_layouts(api_entry.key, int(version)) if api_entry else None
    assert api_entry is not None
    assert layouts is not None
    broken = read_request(unhex(f"0000000b {api_entry.key:04x} {int(version):04x} 00000009 ffff 7f"))
    body = encode(layouts.response, to_encodable(layouts.response, RESPONSES[api]))
    response = read_response(
        with_length_prefix(encode(layouts.response_header, {"correlation_id": 9}) + body), api_entry.key, int(version)
    )
    assert response.well_formed
    assert not broken.well_formed
    connection = ConnectionState(RunState(rules.trackers()), flags=ALL_FLAGS)
    for second in range(0, 60, 10):
        request = RequestReceived(second * SECOND, 0, 11, broken)
        for event in (request, ResponseReceived(second * SECOND + 1, 0, len(body), 9, response, request)):
            for tracker in connection.run.trackers.subscribers(event, ALL_FLAGS):
                (connection.run if tracker.is_shared else connection).state(tracker.kind).observe(event, connection)
            assert not [finding.code for finding in rules.check(event, connection) if "S019" <= finding.code <= "S035"]


def test_produce_response_without_a_captured_request_is_not_judged() -> None:
    assert not findings('open 1 midstream\n< #9 as Produce v7 {"responses": []}\n', "S033")


def test_request_without_a_transaction_has_no_coordinator() -> None:
    assert not findings(6 * '> InitProducerId v1 {"transactional_id": null}\n< {"error_code": 16}\n', "S022")


def test_repeated_topic_error_in_one_response_counts_once() -> None:
    topic = "AAAAAAAAAAAAAAAAAAAAAQ"
    partitions = (
        '{"partition_index": 0, "error_code": 100}, {"partition_index": 1, "error_code": 100}, {"error_code": 6}'
    )
    story = (
        f'> Fetch v13 {{"topics": [{{"topic_id": "{topic}", "partitions": [{{}}]}}]}}\n'
        f'< {{"responses": [{{"topic_id": "{topic}", "partitions": [{partitions}]}}]}}\n'
    )
    assert len(findings(3 * (story + "+3s\n"), "S030")) == 1
    assert not findings(4 * (story + "+2m\n"), "S030")
