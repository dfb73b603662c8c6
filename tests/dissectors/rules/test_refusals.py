"""E001 and E003: what single errors of brokers mean, beyond the stories on their pages."""

from __future__ import annotations

import json

import pytest

from dissectors.refusals import Nature, generic_judgements, judgement
from dissectors.rules.refusals.owners import OWNERS
from tests.dissectors.rules.refusal_stories import error_findings, produce_with_error
from tests.kproxy.stories import findings


def end_transaction(code: int) -> str:
    return f'> EndTxn v3 {{"transactional_id": "t"}}\n< {{"error_code": {code}}}\n'


def is_owned(code: int) -> bool:
    """Return whether another rule reports the first occurrence of an error."""
    return any(findings(end_transaction(code), owner) for owner in OWNERS.get(code, ()))


@pytest.mark.parametrize("code", sorted(generic_judgements()))
def test_single_error_is_reported_only_if_it_is_final(code: int) -> None:
    findings_in_parts = error_findings(end_transaction(code))
    is_final = judgement("EndTxn", code).nature is Nature.FINAL
    assert [finding.code for finding in findings_in_parts] == (["E001"] if is_final and not is_owned(code) else [])


def test_relevant_request_values_are_quoted() -> None:
    [finding] = error_findings('> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 1000}\n< {"error_code": 26}\n')
    assert finding.message.startswith(
        "JoinGroup of client 'app' was refused with INVALID_SESSION_TIMEOUT for group 'g' (session_timeout_ms is 1000)"
    )
    story = (
        '> OffsetForLeaderEpoch v4 {"topics": [{"topic": "orders", "partitions": ['
        '{"partition": 0, "current_leader_epoch": 5}, {"partition": 1, "current_leader_epoch": 11}]}]}\n'
        '< {"topics": [{"topic": "orders", "partitions": [{"partition": 0}, {"partition": 1, "error_code": 74}]}]}\n'
        "+3s\n"
    )
    [finding] = error_findings(3 * story)
    assert "for orders[1] (current_leader_epoch is 11)" in finding.message


def test_broker_message_is_quoted_escaped_and_limited() -> None:
    records = [{"batch_index": 3, "batch_index_error_message": "bad \u001b[31m record " + "x" * 500}]
    [finding] = error_findings(produce_with_error(87, record_errors=records))
    assert 'the broker says "bad \\x1b[31m record xxx' in finding.message
    assert finding.message.endswith('xxx..."')
    assert len(finding.message) < 600


def test_empty_broker_message_is_not_quoted() -> None:
    for text in ("NONE", "INVALID_RECORD", "", " "):
        [finding] = error_findings(produce_with_error(87, error_message=text))
        assert "broker says" not in finding.message


def test_broker_message_is_not_quoted_if_the_request_has_a_secret() -> None:
    def message_for_config(name: str) -> str:
        [finding] = error_findings(
            '> IncrementalAlterConfigs v1 {"resources": [{"resource_type": 4, "resource_name": "1", "configs": ['
            f'{{"name": "{name}", "value": "hunter2"}}]}}]}}\n'
            '< {"responses": [{"error_code": 40, "error_message": "Invalid value hunter2", "resource_type": 4, '
            '"resource_name": "1"}]}\n'
        )
        return finding.message

    assert "Invalid value hunter2" in message_for_config("log.retention.ms")
    assert "hunter2" not in message_for_config("listener.name.sasl.jaas.config")


def test_topics_with_the_same_error_share_one_finding() -> None:
    topics = [{"name": f"t{index}", "error_code": 44} for index in range(5)]
    requested_topics = [{"name": f"t{index}"} for index in range(5)]
    [finding] = error_findings(
        f"> CreateTopics v5 {json.dumps({'topics': requested_topics})}\n< {json.dumps({'topics': topics})}\n"
    )
    assert "for topic t0, topic t1, topic t2 and 2 more" in finding.message
    assert finding.severity == "warning"


def test_refusal_of_an_existing_topic_is_reported_as_information() -> None:
    [finding] = error_findings(
        '> CreateTopics v5 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 36}]}\n'
    )
    assert finding.severity == "info"


def test_invalid_request_is_explained_only_for_the_invalid_topic() -> None:
    """From tulios/kafkajs#1162: only one of the topics is wrong."""
    valid_topic = {"name": "right", "num_partitions": 1, "replication_factor": 1}
    invalid_topic = {**valid_topic, "name": "wrong", "assignments": [{"partition_index": 0, "broker_ids": [1]}]}
    story = (
        f"> CreateTopics v5 {json.dumps({'topics': [valid_topic, invalid_topic]})}\n"
        '< {"topics": [{"name": "right", "error_code": 42}, {"name": "wrong", "error_code": 42}]}\n'
    )
    reported = {finding.code: finding for finding in error_findings(story)}
    assert set(reported) == {"E001", "E003"}
    assert "topic wrong: num_partitions and replication_factor must be -1 with assignments" in reported["E003"].message
    assert "for topic right" in reported["E001"].message, "nothing is known to be wrong with this one"
    assert "wrong" not in reported["E001"].message


def test_empty_list_of_assignments_is_explained() -> None:
    def create_partitions(assignments: str, code: int) -> str:
        request_body = f'{{"topics": [{{"name": "t", "count": 6, "assignments": {assignments}}}]}}'
        return f'> CreatePartitions v1 {request_body}\n< {{"results": [{{"name": "t", "error_code": {code}}}]}}\n'

    [finding] = error_findings(create_partitions("[]", 39))
    assert finding.code == "E003"
    assert "assignments is an empty list, which assigns none of the new partitions" in finding.message
    assert "send assignments null" in (finding.hint or "")
    assert not error_findings(create_partitions("[]", 0))
    assert [finding.code for finding in error_findings(create_partitions('[{"broker_ids": [1]}]', 39))] == ["E001"]


def test_incomplete_join_is_explained() -> None:
    """From confluentinc/librdkafka#5541."""
    [finding] = error_findings(
        '> ConsumerGroupHeartbeat v1 {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": '
        '-1, "subscribed_topic_names": null, "topic_partitions": null}\n'
        '< {"error_code": 42, "error_message": "RebalanceTimeoutMs must be provided in first request."}\n'
    )
    assert finding.code == "E003"
    assert finding.message == (
        "ConsumerGroupHeartbeat of client 'app' was refused with INVALID_REQUEST for group 'g': with member_epoch 0 "
        "the request must be complete, but rebalance_timeout_ms is -1, subscribed_topic_names and "
        "subscribed_topic_regex "
        'are null, topic_partitions is null; the broker says "RebalanceTimeoutMs must be provided in first request."'
    )


def test_errors_in_a_guessed_layout_are_not_judged() -> None:
    story = (
        '> Heartbeat v1 {"group_id": "g", "member_id": "m"}\n< {"error_code": 42} with moved:throttle_time_ms:last\n'
    )
    assert not error_findings(story)


@pytest.mark.slow
def test_response_with_very_many_errors_is_reported_in_parts() -> None:
    topics = [{"name": f"t{index}", "error_code": 44 if index % 2 else 36} for index in range(5_000)]
    requested_topics = [{"name": f"t{index}"} for index in range(5_000)]
    findings_in_parts = error_findings(
        f"> CreateTopics v5 {json.dumps({'topics': requested_topics})}\n< {json.dumps({'topics': topics})}\n"
    )
    assert sorted(finding.severity for finding in findings_in_parts) == ["info", "warning"]
    assert all("and 97 more" in finding.message for finding in findings_in_parts)


def test_shared_group_of_several_targets_is_named_once() -> None:
    partitions = [{"partition_index": index, "error_code": 12} for index in range(2)]
    request_body = {
        "group_id": "g",
        "topics": [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}],
    }
    response_body = json.dumps({"topics": [{"name": "t", "partitions": partitions}]})
    [finding] = error_findings(f"> OffsetCommit v7 {json.dumps(request_body)}\n< {response_body}\n")
    assert "was refused with OFFSET_METADATA_TOO_LARGE for group 'g', t[0], t[1]: " in finding.message
