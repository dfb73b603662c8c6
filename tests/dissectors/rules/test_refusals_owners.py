"""Rules that own an error: they report it instead of E001 and E002."""

from __future__ import annotations

import json

from dissectors import rules
from dissectors.connections.events import FRAME_EVENTS
from dissectors.refusals import judgement
from dissectors.rules.helpers.refused import ReturnedError
from dissectors.rules.refusals.owners import OWNERS, has_owner_reported, owners
from dissectors.schemas.codes import Error
from dissectors.trackers.state import ConnectionState
from tests.dissectors.rules.refusal_stories import PRODUCE, loop_findings, produce_with_error
from tests.kproxy.stories import findings


def test_owners_are_rules_about_frames() -> None:
    rules_by_code = {rule.code: rule for rule in rules.rules()}
    for error, owner_codes in OWNERS.items():
        for code in owner_codes:
            assert any(set(trigger.events) & set(FRAME_EVENTS) for trigger in rules_by_code[code].triggers), (
                error,
                code,
            )


def test_owners_of_an_error_depend_on_the_api() -> None:
    assert owners("Metadata", Error.LEADER_NOT_AVAILABLE) == ("S006", "S011")
    assert owners("ListOffsets", Error.LEADER_NOT_AVAILABLE) == ()
    assert owners("EndTxn", Error.COORDINATOR_NOT_AVAILABLE) == ("S023",)


def test_finding_in_a_request_replaces_the_generic_finding_about_its_refusal() -> None:
    batches = 2 * [{"records": [{"key": "k", "value": "v"}]}]
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": batches}]}]
    produce = f"> Produce v9 {json.dumps({'acks': -1, 'topic_data': topics})}\n"
    refused = produce_with_error(87).split("\n", 1)[1]
    assert {finding.code for finding in findings(produce + refused)} & {"R024", "E001"} == {"R024"}
    assert {finding.code for finding in findings(PRODUCE + refused)} & {"R024", "E001"} == {"E001"}


def test_owner_of_an_error_is_the_only_rule_that_reports_it() -> None:
    exchange = '> Metadata v9 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 29}]}\n'
    assert {finding.code for finding in findings(exchange)} & {"X014", "E001"} == {"X014"}


def test_loop_is_reported_if_its_owner_reports_nothing() -> None:
    """S022 ignores a client that never looks up the coordinator."""
    refused = (
        '> OffsetFetch v8 {"groups": [{"group_id": "g"}]}\n< {"groups": [{"group_id": "g", "error_code": 16}]}\n+2s\n'
    )
    lookup = '> FindCoordinator v2 {"key": "g"}\n< {"node_id": 1, "host": "kafka-1", "port": 9092}\n'
    assert {finding.code for finding in findings(6 * refused)} >= {"E002"}
    codes = [finding.code for finding in findings(9 * (lookup + refused))]
    assert codes.count("S022") == 1
    assert codes.count("E002") <= 1


def test_owner_may_report_another_frame_of_the_loop() -> None:
    """S008 reports a Metadata response that still names a broker which denies that it is the leader."""
    story = (
        '> Metadata v8 {"topics": [{"name": "orders"}]}\n'
        '< {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "topics": [{"name": "orders", "partitions": '
        '[{"partition_index": 0, "leader_id": 1}]}]}\n' + produce_with_error(6) + "+600ms\n"
    )
    assert {"S008", "E002"} & {finding.code for finding in findings(30 * story)} == {"S008"}


def test_owner_must_have_reported_the_same_client() -> None:
    connection = ConnectionState(client="10.0.0.7:50001", client_id="app")
    connection.note_problem("S014", 5)
    code = Error.MEMBER_ID_REQUIRED
    error = ReturnedError((), code, code.name, (), {}, judgement("JoinGroup", code))
    assert has_owner_reported(error, connection, since=5)
    assert not has_owner_reported(error, connection, since=6)
    assert not has_owner_reported(error._replace(contradicted=True), connection, since=5)
    connection.client_id = "other"
    assert not has_owner_reported(error, connection, since=5)


def test_metadata_without_a_leader_explains_refusals_by_an_old_leader() -> None:
    produce = (
        '> Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{}]}]}\n'
        '< {"responses": [{"name": "orders", "partition_responses": [{"error_code": 6, "base_offset": -1}]}]}\n'
    )
    topic = {"name": "orders", "partitions": [{"error_code": 5, "leader_id": -1}]}
    metadata = f'> Metadata v8 {{"topics": [{{"name": "orders"}}]}}\n< {json.dumps({"topics": [topic]})}\n+3s\n'
    heartbeat = '+20s\n> Heartbeat v4 {"group_id": "g", "member_id": "m"}\n< {}\n'
    reported = {finding.code for finding in findings(3 * produce + 6 * metadata + heartbeat)}
    assert reported & {"E002", "E006", "S006"} == {"S006"}
    assert loop_findings(3 * produce + metadata + heartbeat)
