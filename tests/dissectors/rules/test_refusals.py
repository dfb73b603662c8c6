"""E001 to E004: what errors of brokers mean, and when they are problems; beside the stories on their pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissectors import rules
from dissectors.connections.events import FRAME_EVENTS, ResponseReceived
from dissectors.refusals import Nature, generic_judgements, judgement
from dissectors.rules.helpers.refused import ReturnedError
from dissectors.rules.refusals import refused_repeatedly
from dissectors.rules.refusals.owners import OWNERS, has_owner_reported, owners
from dissectors.schemas.codes import Error
from dissectors.trackers.state import ConnectionState
from kproxy.trace.lines import FindingEntry, FindingLine
from tests.kproxy.stories import Teller, findings

PRODUCE = '> Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0}]}]}\n'


def error_findings(story: str) -> list[FindingEntry | FindingLine]:
    return [finding for finding in findings(story) if finding.code.startswith("E")]


def loop_findings(story: str) -> list[FindingEntry | FindingLine]:
    return [finding for finding in findings(story) if finding.code == "E002"]


def abandoned_findings(story: str) -> list[FindingEntry | FindingLine]:
    return [finding for finding in findings(story) if finding.code == "E006"]


def produce_with_error(code: int, *, partition: int = 0, topic: str = "orders", **fields: Any) -> str:
    partition_response = {"index": partition, "error_code": code, "base_offset": -1 if code else 7, **fields}
    return PRODUCE + f"< {json.dumps({'responses': [{'name': topic, 'partition_responses': [partition_response]}]})}\n"


def heartbeat(code: int) -> str:
    return f'> Heartbeat v4 {{"group_id": "g", "member_id": "m"}}\n< {{"error_code": {code}}}\n'


def end_transaction(code: int) -> str:
    return f'> EndTxn v3 {{"transactional_id": "t"}}\n< {{"error_code": {code}}}\n'


def test_loop_is_reported_once_with_count_and_reason() -> None:
    [finding] = error_findings(9 * (produce_with_error(19, error_message="ISR is {1}") + "+500ms\n"))
    assert (finding.code, finding.severity, finding.blame) == ("E002", "warning", "broker")
    assert finding.message == (
        "4 of 4 Produce requests of client 'app' were refused with NOT_ENOUGH_REPLICAS in 1.5 s for orders[0]: the "
        "partition has fewer in-sync replicas than min.insync.replicas, so that acks=all is refused; the broker says "
        '"ISR is {1}"'
    )
    assert finding.hint is not None
    assert "min.insync.replicas" in finding.hint
    assert finding.path == "responses[0].partition_responses[0].error_code"


def test_loop_is_an_error_if_all_requests_fail_or_if_it_lasts() -> None:
    [finding] = error_findings(9 * (produce_with_error(7) + "+300ms\n"))
    assert finding.severity == "error"
    assert finding.message.startswith("6 of 6 Produce requests of client 'app' were refused with REQUEST_TIMED_OUT")
    success = produce_with_error(0, partition=1)
    reported = error_findings(20 * (produce_with_error(7) + success + "+1s\n"))
    assert [finding.severity for finding in reported] == ["warning", "error"]
    assert reported[0].message.startswith("3 of 5 Produce requests")


def test_success_resets_the_count() -> None:
    failures = 2 * (produce_with_error(19) + "+1s\n")
    assert not error_findings(4 * (failures + produce_with_error(0)))
    assert error_findings(failures + produce_with_error(0, partition=1) + failures), (
        "the success of another partition resets nothing"
    )
    assert error_findings(failures + produce_with_error(0).replace("> ", "> as other ") + failures), (
        "nor does the success of another client"
    )


def test_count_restarts_after_silence() -> None:
    assert not loop_findings(2 * (2 * (produce_with_error(19) + "+1s\n") + "+31s\n"))


@pytest.mark.parametrize(("code", "reported_after"), [(19, 15), (51, 15), (56, 1)])
def test_errors_after_an_election_have_more_time(code: int, reported_after: int) -> None:
    """NOT_COORDINATOR suggests an election, which explains missing replicas and markers, but not a broken disk."""
    loop = produce_with_error(code) + "+1s\n"
    assert loop_findings(10 * loop)
    assert bool(loop_findings(heartbeat(16) + 10 * loop)) is (reported_after < 10)
    assert loop_findings(heartbeat(16) + 20 * loop), "it does not pass"
    assert loop_findings(heartbeat(16) + "+16s\n" + 10 * loop), "that election was long before"


def test_lasting_error_is_reported_only_if_repeated() -> None:
    assert not loop_findings(produce_with_error(19) + "+10s\n" + produce_with_error(19))
    slow_failure = PRODUCE + "+29s\n" + produce_with_error(7).split("\n", 1)[1]
    assert not loop_findings(slow_failure)
    assert loop_findings(2 * slow_failure), "two that took 29 s each are as many as three"


def test_repeated_requests_may_be_for_different_partitions() -> None:
    story = "".join(produce_with_error(19, partition=index) + "+400ms\n" for index in range(9))
    [finding] = error_findings(story)
    assert finding.message.startswith("5 of 5 Produce requests")
    assert "for orders[0], orders[1], orders[2] and 2 more" in finding.message


@pytest.mark.parametrize("code", [14, 15, 16, 27, 79])
def test_errors_at_the_first_use_of_a_group_are_not_reported(code: int) -> None:
    assert not error_findings(4 * (heartbeat(code) + "+1s\n") + heartbeat(0))


@pytest.mark.parametrize("code", sorted(generic_judgements()))
def test_single_error_is_reported_only_if_it_is_final(code: int) -> None:
    reported = error_findings(end_transaction(code))
    is_final = judgement("EndTxn", code).nature is Nature.FINAL
    assert [finding.code for finding in reported] == (["E001"] if is_final and not is_owned(code) else [])


def is_owned(code: int) -> bool:
    """Whether another rule reports the first occurrence of an error."""
    return any(findings(end_transaction(code), owner) for owner in OWNERS.get(code, ()))


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


def test_refusal_of_an_existing_topic_is_information() -> None:
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


def test_finding_in_the_request_explains_its_refusal() -> None:
    batches = 2 * [{"records": [{"key": "k", "value": "v"}]}]
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": batches}]}]
    produce = f"> Produce v9 {json.dumps({'acks': -1, 'topic_data': topics})}\n"
    refused = produce_with_error(87).split("\n", 1)[1]
    assert {finding.code for finding in findings(produce + refused)} & {"R024", "E001"} == {"R024"}
    assert {finding.code for finding in findings(PRODUCE + refused)} & {"R024", "E001"} == {"E001"}


def test_owner_reports_an_error_alone() -> None:
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


def test_errors_in_a_guessed_layout_are_not_judged() -> None:
    story = (
        '> Heartbeat v1 {"group_id": "g", "member_id": "m"}\n< {"error_code": 42} with moved:throttle_time_ms:last\n'
    )
    assert not error_findings(story)


def test_successes_are_observed_only_while_an_api_is_refused() -> None:
    teller = Teller()
    run = teller.inspector._inspection.run_state
    teller.tell(heartbeat(0) + produce_with_error(0))
    assert "E002 Produce" not in run.subscribed
    teller.tell(produce_with_error(19) + heartbeat(0))
    subscriptions = {subscription for subscription in run.subscribed if subscription.startswith("E002")}
    assert subscriptions == {"E002 Produce"}
    teller.tell(produce_with_error(0, partition=1))
    assert "E002 Produce" in run.subscribed, "the success of another partition ends nothing"
    teller.tell(produce_with_error(0))
    assert "E002 Produce" not in run.subscribed
    teller.tell(produce_with_error(19) + "+61s\n" + produce_with_error(0, partition=1))
    assert "E002 Produce" not in run.subscribed, "although this partition was refused to the end"


def test_response_without_errors_costs_little_after_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    teller = Teller()
    teller.tell(produce_with_error(19) + produce_with_error(0))
    calls = []
    for name in ("refusals", "results", "client_key", "_note_success"):
        monkeypatch.setattr(refused_repeatedly, name, lambda *_, name=name: calls.append(name))
    teller.tell(5 * produce_with_error(0))
    assert not calls


def test_subscription_applies_to_one_api_only() -> None:
    dispatch = rules._interested
    for api, expected in (("Produce", True), ("Heartbeat", False)):
        selected = dispatch._find_subscribers(ResponseReceived, api, 1, True, 0, frozenset({"E002 Produce"}))
        assert ("E002" in [finding.code for finding in selected]) is expected


def test_error_contradicted_by_the_request_is_blamed_on_the_broker() -> None:
    request = '> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "member_id": "%s"}\n'
    loop = 9 * (request.replace("%s", "m-1") + '< {"error_code": 79, "member_id": "m-1"}\n+500ms\n')
    [finding] = error_findings(loop)
    assert (finding.code, finding.blame) == ("E002", "broker")
    assert "requires a member id although the request has one" in finding.message
    assert not error_findings(request.replace("%s", "") + '< {"error_code": 79, "member_id": "m-1"}\n')
    [finding] = error_findings(request.replace("%s", "") + '< {"error_code": 24}\n')
    assert (finding.code, finding.blame) == ("E001", "broker")
    [finding] = error_findings(request.replace('"g"', '""').replace("%s", "") + '< {"error_code": 24}\n')
    assert (finding.code, finding.blame) == ("E003", "client")


def test_error_contradicted_by_its_own_response_is_blamed_on_the_broker() -> None:
    def metadata_with_leader(leader: int) -> str:
        row = {"error_code": 5, "partition_index": 0, "leader_id": leader}
        topics = [{"name": "orders", "partitions": [row]}]
        return f'> Metadata v8 {{"topics": [{{"name": "orders"}}]}}\n< {json.dumps({"topics": topics})}\n'

    [finding] = error_findings(metadata_with_leader(3))
    assert (finding.code, finding.blame, finding.severity) == ("E001", "broker", "warning")
    assert "names a leader of the partition nevertheless" in finding.message
    assert not error_findings(metadata_with_leader(-1))


def test_producer_that_gave_up_is_reported() -> None:
    failure = produce_with_error(45)
    [finding] = error_findings(failure + "+6s\n")
    assert (finding.code, finding.severity) == ("E005", "error")
    assert finding.message.startswith(
        "client 'app' has sent no Produce and no InitProducerId for 5 s since its last Produce was refused with "
        "OUT_OF_ORDER_SEQUENCE_NUMBER for orders[0]"
    )
    [after_close] = error_findings(failure + "close\n+6s\n")
    assert after_close.message.startswith(
        "client 'app' closed its connection after its last Produce was refused with OUT_OF"
    )
    assert not error_findings(failure + "open 3 client=10.0.0.101:50010\n+1s\n3 close\n" + produce_with_error(0)), (
        "another connection was closed"
    )
    assert not error_findings(failure + '> InitProducerId v3 {"transactional_id": null}\n+6s\n')
    new_connection = "open 2 client=10.0.0.101:50009\n"
    assert not error_findings(failure + new_connection + "2" + PRODUCE + "+6s\n"), (
        "the same client on another connection"
    )
    assert error_findings(failure + new_connection + "2" + PRODUCE.replace("> ", "> as other ") + "+6s\n"), (
        "another client"
    )


def test_response_with_very_many_errors_is_reported_in_parts() -> None:
    topics = [{"name": f"t{index}", "error_code": 44 if index % 2 else 36} for index in range(5_000)]
    requested_topics = [{"name": f"t{index}"} for index in range(5_000)]
    reported = error_findings(
        f"> CreateTopics v5 {json.dumps({'topics': requested_topics})}\n< {json.dumps({'topics': topics})}\n"
    )
    assert sorted(finding.severity for finding in reported) == ["info", "warning"]
    assert all("and 97 more" in part.message for part in reported)


def test_success_hidden_among_many_partitions_prevents_a_loop() -> None:
    def produce_to_many(code: int, partition_count: int) -> str:
        rows = [{"index": index, "error_code": 0, "base_offset": 1} for index in range(1, partition_count)]
        rows.append({"index": 0, "error_code": code, "base_offset": -1})
        return PRODUCE + f"< {json.dumps({'responses': [{'name': 'orders', 'partition_responses': rows}]})}\n+1s\n"

    assert error_findings(4 * produce_to_many(19, 1_100)), "refused each time"
    assert not error_findings(
        2 * produce_to_many(19, 1_100) + produce_to_many(0, 1_100) + 2 * produce_to_many(19, 1_100)
    )


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


def commit_with_error(code: int) -> str:
    topic_entry = {"name": "t", "partitions": [{"error_code": code}]}
    request_body = {"group_id": "g", "topics": [{"name": "t", "partitions": [{"committed_offset": 7}]}]}
    return f"> OffsetCommit v7 {json.dumps(request_body)}\n< {json.dumps({'topics': [topic_entry]})}\n"


def test_growing_backoff_is_reported_before_the_next_attempt() -> None:
    attempts = "".join(commit_with_error(15) + f"+{wait}ms\n" for wait in (250, 500, 1000, 2500))
    success = commit_with_error(0)
    [finding] = loop_findings(attempts + "+6s\n")
    assert finding.message.startswith(
        "4 of 4 OffsetCommit requests of client 'app' were refused with COORDINATOR_NOT_A"
    )
    assert not loop_findings(attempts + success + "+9s\n")
    assert not loop_findings(attempts + "+3s\n"), "it may pass until then"


def test_client_that_gives_up_after_a_transient_error_is_reported() -> None:
    [finding] = abandoned_findings(commit_with_error(14) + "+9s\n")
    assert (finding.severity, finding.direction, finding.offset) == ("warning", "request", 0)
    assert finding.message.startswith(
        "OffsetCommit of client 'app' was refused with COORDINATOR_LOAD_IN_PROGRESS for group 'g', t[0], and the "
        "client has sent no OffsetCommit for 8 s since: the coordinator is still loading"
    )
    assert not abandoned_findings(commit_with_error(14) + "+2s\n" + commit_with_error(0) + "+9s\n")
    other_client = commit_with_error(0).replace("> ", "> as other ")
    assert abandoned_findings(commit_with_error(14) + other_client + "+9s\n"), "another client's request does not count"
    join = '> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}\n'
    assert not abandoned_findings(commit_with_error(14) + join + '< {"error_code": 0, "generation_id": 2}\n+9s\n'), (
        "it rejoins instead"
    )
    assert not abandoned_findings(commit_with_error(25) + "+9s\n"), "that is G011"
    assert not abandoned_findings('> FindCoordinator v2 {"key": "g"}\n< {"error_code": 15}\n+9s\n'), (
        "a lookup is repeated only when it is needed"
    )
    assert not abandoned_findings(commit_with_error(28) + "+9s\n"), "an error that does not pass"


def test_client_that_disconnects_after_a_transient_error_is_reported() -> None:
    last_attempt = commit_with_error(16) + "close by=client how=fin\n"
    [finding] = abandoned_findings(last_attempt + "+3s\n")
    assert finding.severity == "info"
    assert "and the client closed its connections without repeating it" in finding.message
    other_connection = "open 2 client=10.0.0.101:50009\n2> as app Metadata v8\n2< {}\n"
    assert not abandoned_findings(other_connection + last_attempt + "+3s\n"), "it has another connection"
    new_connection = "open 3 client=10.0.0.101:50010\n3" + commit_with_error(0).replace("> ", "> as app ").replace(
        "<", "3<", 1
    )
    assert not abandoned_findings(last_attempt + "+1s\n" + new_connection + "+9s\n"), "it has connected again"
    assert not abandoned_findings(commit_with_error(3) + "+9s\n"), "the topic does not exist"
    assert not abandoned_findings(commit_with_error(16) + "close by=server how=fin\n+3s\n"), "it may connect again"
    assert not abandoned_findings(commit_with_error(16) + "close\n+9s\n"), "nobody sees what the client does"


def test_shared_group_of_several_targets_is_named_once() -> None:
    partitions = [{"partition_index": index, "error_code": 12} for index in range(2)]
    request_body = {
        "group_id": "g",
        "topics": [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}],
    }
    response_body = json.dumps({"topics": [{"name": "t", "partitions": partitions}]})
    [finding] = error_findings(f"> OffsetCommit v7 {json.dumps(request_body)}\n< {response_body}\n")
    assert "was refused with OFFSET_METADATA_TOO_LARGE for group 'g', t[0], t[1]: " in finding.message


def test_lookups_between_refused_attempts_are_not_a_loop() -> None:
    lookup = '> FindCoordinator v3 {"key": "g"}\n< {"node_id": 1, "host": "kafka-1", "port": 9092}\n+300ms\n'
    refused_syncs = 3 * (
        '2> SyncGroup v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}\n2< {"error_code": 15}\n+100ms\n'
    )
    second_connection = "open 2 client=10.0.0.101:50009\n"
    assert not findings(second_connection + refused_syncs + 25 * lookup, "S067")
    assert findings(25 * lookup, "S067")


def test_reconnects_after_refusals_are_not_a_storm() -> None:
    visits = "".join(
        f'open {number} client=10.0.0.101:{50_000 + number}\n{number}> Metadata v8 {{"topics": []}}\n{number}< {{}}\n'
        f"{number} close by=client how=fin\n+300ms\n"
        for number in range(2, 14)
    )
    assert findings(visits, "C017")
    assert not findings(commit_with_error(16) + visits, "C017")


def test_refusal_of_a_supported_codec_is_blamed_on_the_broker() -> None:
    fetch = '> Fetch v{} {{"topics": [{{"topic": "t", "partitions": [{{}}]}}]}}\n'
    response = '< {"responses": [{"topic": "t", "partitions": [{"error_code": 76}]}]}\n'
    [finding] = error_findings(fetch.format(11) + response)
    assert (finding.code, finding.blame) == ("E001", "broker")
    assert not error_findings(fetch.format(4) + response), "R013 reports that this codec needs a newer version"


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
