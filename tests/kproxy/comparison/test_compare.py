"""Traces are aligned by connection and exchange; effects of timing are not reported as differences."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kproxy.comparison.bodies import DifferenceKind
from kproxy.comparison.compare import compare_traffic
from kproxy.comparison.differences import Aspect, TrafficComparison
from kproxy.comparison.traffic import RecordedTraffic, collect_traffic
from kproxy.trace.lines import CloseLine, RequestLine
from tests.kproxy.comparison.sample_traffic import Exchange, lines, traffic

OK: dict[str, Any] = {"error_code": 0}
API_VERSIONS: Exchange = ("ApiVersions", 3, OK)
METADATA: Exchange = ("Metadata", 12, OK)
CREATE: Exchange = ("CreateTopics", 7, OK)
JOIN: Exchange = ("JoinGroup", 7, {"error_code": 0, "member_id": "m-1", "generation_id": 1})
FETCH: Exchange = ("Fetch", 12, {"error_code": 0, "session_id": 7, "responses": []})
HEARTBEAT: Exchange = ("Heartbeat", 4, OK)


def differences(a: RecordedTraffic, b: RecordedTraffic, **options: Any) -> list[tuple[Any, ...]]:
    return [
        (difference.aspect, difference.api, difference.path, difference.a, difference.b)
        for difference in compare(a, b, **options).differences
    ]


def compare(a: RecordedTraffic, b: RecordedTraffic, **options: Any) -> TrafficComparison:
    return compare_traffic(a, b, **options)


def test_equal_traffic_has_no_differences() -> None:
    comparison = compare(traffic([API_VERSIONS, METADATA, JOIN, FETCH]), traffic([API_VERSIONS, METADATA, JOIN, FETCH]))
    assert (comparison.differences, comparison.notes, comparison.pairs) == ([], [], 3)


def test_additional_metadata_requests_do_not_disturb_the_alignment() -> None:
    failed_create: Exchange = ("CreateTopics", 7, {"error_code": 3})
    a, b = traffic([API_VERSIONS, CREATE, CREATE]), traffic([API_VERSIONS, METADATA, CREATE, METADATA, failed_create])
    assert differences(a, b) == [(Aspect.ERROR_CODE, "CreateTopics", "error_code", 0, 3)]
    assert compare(a, b).notes == ["additional routine requests, not compared: 2 Metadata"]


def test_metadata_may_come_before_or_after_another_request() -> None:
    assert differences(traffic([METADATA, CREATE, JOIN]), traffic([CREATE, JOIN, METADATA])) == []


def test_number_of_poll_requests_may_differ_but_not_their_values() -> None:
    a, b = traffic([JOIN, *[FETCH, HEARTBEAT] * 9]), traffic([JOIN, FETCH, HEARTBEAT, HEARTBEAT])
    assert differences(a, b) == []
    assert compare(a, b).notes == [
        "repeated requests, whose number may differ (A and B): Fetch 9 and 1, Heartbeat 9 and 2"
    ]
    rebalance: Exchange = ("Heartbeat", 4, {"error_code": 27})
    b = traffic([JOIN, FETCH, HEARTBEAT, rebalance])
    assert differences(a, b) == [(Aspect.ERROR_CODE, "Heartbeat", "error_code", [], [27])]


def test_missing_fetch_session_is_a_difference_but_offsets_are_not() -> None:
    def fetch(session: int, offset: int) -> Exchange:
        partitions = [{"partition_index": 0, "high_watermark": offset, "records": []}]
        return ("Fetch", 12, {"session_id": session, "responses": [{"topic": "orders", "partitions": partitions}]})

    a, b = traffic([fetch(8, 10), fetch(8, 20)]), traffic([fetch(0, 5)])
    assert differences(a, b) == [(Aspect.FIELD, "Fetch", "session_id", ["(some)"], [0])]


def test_unanswered_request_is_a_difference_unless_it_is_the_last() -> None:
    def produce_traffic(*responses: object, acks: int = -1) -> RecordedTraffic:
        return traffic([("Produce", 9, response, {"acks": acks}) for response in responses])

    assert differences(produce_traffic(OK, OK, OK), produce_traffic(OK, OK, None)) == []  # in flight at the end
    assert differences(produce_traffic(OK, OK, OK), produce_traffic(OK, None, OK)) == [
        (Aspect.RESPONSE, "Produce", "", "received", "none")
    ]
    assert differences(produce_traffic(OK, OK, acks=0), produce_traffic(None, OK, acks=0)) == []


def test_batching_of_records_is_not_a_difference() -> None:
    def produce(offset: int, *records: int) -> Exchange:
        batch = {"compression": "none", "last_offset": 4, "records": [{"value": record} for record in records]}
        data = [{"index": record % 2, "records": [batch]} for record in records]
        response = {"responses": [{"partition_responses": [{"index": 0, "base_offset": offset}]}]}
        return ("Produce", 9, response, {"acks": -1, "topic_data": [{"name": "orders", "partition_data": data}]})

    a, b = traffic([produce(0, 1), produce(1, 2)]), traffic([produce(0, 1, 2)])
    assert differences(a, b) == []
    path = "responses[].partition_responses[].base_offset"
    assert differences(a, traffic([produce(-1, 1)])) == [(Aspect.FIELD, "Produce", path, ["(some)"], [-1])]


def test_requests_to_a_broker_that_is_not_ready_are_only_noted() -> None:
    a = traffic([("InitProducerId", 4, {"error_code": 15}), ("InitProducerId", 4, OK)])
    b = traffic([("InitProducerId", 4, OK)])
    assert differences(a, b) == []
    assert compare(a, b).notes == [
        "requests to a broker that was not ready, not compared (A and B): InitProducerId 1 and 0"
    ]
    assert [difference[0] for difference in differences(a, b, complete=True)] == [Aspect.ERROR_CODE, Aspect.REQUEST]
    failed_init = traffic([("InitProducerId", 4, {"error_code": 53})])
    assert differences(failed_init, b) == [(Aspect.ERROR_CODE, "InitProducerId", "error_code", 53, 0)]


def test_coordinator_requests_are_paired_by_key_and_type() -> None:
    def find_coordinator(key: str, key_type: int, code: int = 0) -> Exchange:
        return ("FindCoordinator", 2, {"error_code": code}, {"key": key, "key_type": key_type})

    a, b = (
        traffic([find_coordinator("g", 0), find_coordinator("t", 1)]),
        traffic([find_coordinator("t", 1), find_coordinator("g", 0)]),
    )
    assert differences(a, b) == []
    assert differences(a, traffic([find_coordinator("t", 1), find_coordinator("h", 0)])) == [
        (Aspect.FIELD, "FindCoordinator", "key", "g", "h")
    ]


def test_members_are_compared_in_any_order() -> None:
    def group_with_topics(*topics: str) -> RecordedTraffic:
        members = [{"member_id": f"m-{number}", "topic": topic} for number, topic in enumerate(topics)]
        return traffic([("JoinGroup", 7, {"member_id": "m-0", "members": members})])

    assert differences(group_with_topics("x", "y"), group_with_topics("y", "x")) == []
    assert len(differences(group_with_topics("x", "y"), group_with_topics("y", "z"))) > 0


def test_text_that_may_differ_is_ignored() -> None:
    def traffic_of_run(run: int) -> RecordedTraffic:
        body = {"topics": [{"name": f"orders-{run}"}]}
        recorded_lines = lines([("CreateTopics", 7, body, body)], client_ids=(f"app-{run}",))
        return collect_traffic("x.jsonl", recorded_lines, mask_pattern=re.compile(r"(?<=-)\d+"))

    assert differences(traffic_of_run(1), traffic_of_run(23)) == []


def test_response_is_not_paired_with_a_request_on_an_earlier_connection() -> None:
    [request_line, response_line] = lines([("Metadata", 12, {})])
    assert isinstance(request_line, RequestLine)
    close_line = CloseLine(v=1, ts=request_line.ts, connection_id=request_line.connection_id, client="c", server="s")
    [connection] = collect_traffic("x.jsonl", [request_line, close_line, response_line]).connections
    assert [exchange.response for exchange in connection.exchanges] == [None]
    [connection] = collect_traffic("x.jsonl", [request_line, response_line, close_line]).connections
    assert [exchange.response for exchange in connection.exchanges] == [response_line]


def test_polls_that_only_one_side_sends_are_a_difference() -> None:
    assert differences(traffic([JOIN, HEARTBEAT, HEARTBEAT]), traffic([JOIN])) == [
        (Aspect.REQUEST, "Heartbeat", "", "sent", "sent")
    ]


def test_connections_are_matched_by_their_requests() -> None:
    creating_exchanges, joining_exchanges = [API_VERSIONS, METADATA, CREATE, CREATE], [API_VERSIONS, JOIN]
    assert (
        differences(traffic(creating_exchanges, joining_exchanges), traffic(joining_exchanges, creating_exchanges))
        == []
    )
    renamed_clients = traffic(creating_exchanges, joining_exchanges, client_ids=("app-77", "app"))
    assert differences(traffic(creating_exchanges, joining_exchanges), renamed_clients) == []


def test_request_may_be_sent_on_a_different_connection() -> None:
    telemetry: Exchange = ("GetTelemetrySubscriptions", 0, OK)
    a, b = traffic([METADATA, CREATE, telemetry], [JOIN]), traffic([METADATA, CREATE], [JOIN, telemetry])
    assert differences(a, b) == []


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([JOIN], [("JoinGroup", 9, JOIN[2])], (Aspect.VERSION, "JoinGroup", "", "v7", "v9")),
        ([JOIN, CREATE], [("JoinGroup", 7, None), CREATE], (Aspect.RESPONSE, "JoinGroup", "", "received", "none")),
        ([JOIN, CREATE], [JOIN], (Aspect.REQUEST, "CreateTopics", "", "sent", "sent")),
        ([JOIN, CREATE, CREATE], [CREATE, CREATE, JOIN], (Aspect.ORDER, "JoinGroup", "", "#0:0", "#0:2")),
    ],
)
def test_difference_is_reported(a: list[Exchange], b: list[Exchange], expected: tuple[Any, ...]) -> None:
    assert differences(traffic(a), traffic(b)) == [expected]


def test_last_request_may_be_in_flight_when_the_recording_ends() -> None:
    a, b = traffic([JOIN, CREATE]), traffic([JOIN, ("CreateTopics", 7, None)])
    assert differences(a, b) == []
    assert compare(a, b).notes == ["no response in B to the last request of a connection: CreateTopics v7 #0:1"]
    assert differences(a, b, complete=True) == [(Aspect.RESPONSE, "CreateTopics", "", "received", "none")]


def test_additional_connection_is_a_difference_unless_it_is_routine() -> None:
    comparison = compare(traffic([JOIN], [METADATA, CREATE]), traffic([JOIN]))
    assert [(difference.aspect, difference.a, difference.why) for difference in comparison.differences] == [
        (Aspect.CONNECTION, "1 Metadata, 1 CreateTopics", DifferenceKind.ONLY_IN_A)
    ]
    routine = compare(traffic([JOIN], [API_VERSIONS, FETCH]), traffic([JOIN]))
    assert "a connection of app only in A: 1 ApiVersions, 1 Fetch" in routine.notes


def test_findings_of_one_side_come_first_unless_hidden() -> None:
    a, b = traffic([CREATE], finding="L001"), traffic([("CreateTopics", 7, {"error_code": 1})])
    assert [difference[0] for difference in differences(a, b)] == [Aspect.FINDING, Aspect.ERROR_CODE]
    assert [difference[0] for difference in differences(a, b, shows=lambda code: code != "L001")] == [Aspect.ERROR_CODE]


def test_repeated_difference_is_listed_once_with_its_versions_and_count() -> None:
    def join_traffic(member: str | None) -> RecordedTraffic:
        body = {"member_id": member, "members": [{"user": 1, "x": member}, {"user": 2, "x": member}]}
        return traffic([("JoinGroup", version, body) for version in (1, 2, 3)])

    result = compare(join_traffic("m"), join_traffic(None)).differences
    assert [(difference.path, difference.count, difference.versions) for difference in result] == [
        ("member_id", 3, [(1, 1), (2, 2), (3, 3)]),
        ("members[].x", 6, [(1, 1), (2, 2), (3, 3)]),
    ]


def test_difference_in_api_versions_names_the_api() -> None:
    def api_versions_up_to(newest: int) -> RecordedTraffic:
        return traffic([("ApiVersions", 3, {"api_keys": [{"api_key": 1, "max_version": newest}]})])

    assert differences(api_versions_up_to(12), api_versions_up_to(17)) == [
        (Aspect.FIELD, "ApiVersions", "api_keys[Fetch].max_version", 12, 17)
    ]


def test_long_connections_are_aligned() -> None:
    a, b = [CREATE, JOIN] * 600, [CREATE, JOIN] * 600 + [CREATE]
    assert [difference[:2] for difference in differences(traffic(a), traffic(b))] == [(Aspect.REQUEST, "CreateTopics")]
