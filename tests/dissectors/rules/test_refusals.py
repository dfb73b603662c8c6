"""E001 to E004: what errors of brokers mean, and when they are problems; beside the stories on their pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissectors import rules
from dissectors.connections.events import FRAME_EVENTS, ResponseReceived
from dissectors.refusals import Nature, generic, judgement
from dissectors.rules.helpers.refused import ReturnedError
from dissectors.rules.refusals import refused_repeatedly
from dissectors.rules.refusals.owners import OWNERS, has_owner_spoken, owners
from dissectors.schemas.codes import Error
from dissectors.trackers.state import ConnectionState
from kproxy.trace.lines import FindingEntry, FindingLine
from tests.kproxy.stories import Teller, findings

PRODUCE = '> Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0}]}]}\n'


def family_e(story: str) -> list[FindingEntry | FindingLine]:
    return [finding for finding in findings(story) if finding.code.startswith("E")]


def loops(story: str) -> list[FindingEntry | FindingLine]:
    return [finding for finding in findings(story) if finding.code == "E002"]


def given_up(story: str) -> list[FindingEntry | FindingLine]:
    return [finding for finding in findings(story) if finding.code == "E006"]


def produced(code: int, *, partition: int = 0, topic: str = "orders", **more: Any) -> str:
    row = {"index": partition, "error_code": code, "base_offset": -1 if code else 7, **more}
    return PRODUCE + f"< {json.dumps({'responses': [{'name': topic, 'partition_responses': [row]}]})}\n"


def heartbeat(code: int) -> str:
    return f'> Heartbeat v4 {{"group_id": "g", "member_id": "m"}}\n< {{"error_code": {code}}}\n'


def ended(code: int) -> str:
    return f'> EndTxn v3 {{"transactional_id": "t"}}\n< {{"error_code": {code}}}\n'


def test_a_loop_is_counted_named_and_reported_once() -> None:
    [finding] = family_e(9 * (produced(19, error_message="ISR is {1}") + "+500ms\n"))
    assert (finding.code, finding.severity, finding.blame) == ("E002", "warning", "broker")
    assert finding.message == (
        "4 of 4 Produce requests of client 'app' were refused with NOT_ENOUGH_REPLICAS in 1.5 s for orders[0]: the "
        "partition has fewer in-sync replicas than min.insync.replicas, so that acks=all is refused; the broker says "
        '"ISR is {1}"'
    )
    assert finding.hint is not None
    assert "min.insync.replicas" in finding.hint
    assert finding.path == "responses[0].partition_responses[0].error_code"


def test_a_loop_of_all_requests_is_an_error_and_one_that_lasts_becomes_one() -> None:
    [finding] = family_e(9 * (produced(7) + "+300ms\n"))
    assert finding.severity == "error"
    assert finding.message.startswith("6 of 6 Produce requests of client 'app' were refused with REQUEST_TIMED_OUT")
    well = produced(0, partition=1)
    found = family_e(20 * (produced(7) + well + "+1s\n"))
    assert [finding.severity for finding in found] == ["warning", "error"]
    assert found[0].message.startswith("3 of 5 Produce requests")


def test_a_success_ends_it() -> None:
    loop = 2 * (produced(19) + "+1s\n")
    assert not family_e(4 * (loop + produced(0)))
    assert family_e(loop + produced(0, partition=1) + loop), "that of another partition does not"
    assert family_e(loop + produced(0).replace("> ", "> as other ") + loop), "nor that of another client"


def test_it_restarts_after_silence() -> None:
    assert not loops(2 * (2 * (produced(19) + "+1s\n") + "+31s\n"))


@pytest.mark.parametrize(("code", "reported_after"), [(19, 15), (51, 15), (56, 1)])
def test_an_election_has_more_time(code: int, reported_after: int) -> None:
    """NOT_COORDINATOR explains missing replicas and markers, but no broken disk."""
    loop = produced(code) + "+1s\n"
    assert loops(10 * loop)
    assert bool(loops(heartbeat(16) + 10 * loop)) is (reported_after < 10)
    assert loops(heartbeat(16) + 20 * loop), "it does not pass"
    assert loops(heartbeat(16) + "+16s\n" + 10 * loop), "that election was long before"


def test_what_lasts_is_a_problem_only_if_it_is_repeated() -> None:
    assert not loops(produced(19) + "+10s\n" + produced(19))
    slow = PRODUCE + "+29s\n" + produced(7).split("\n", 1)[1]
    assert not loops(slow)
    assert loops(2 * slow), "two that took 29 s each are as many as three"


def test_each_request_may_have_another_partition() -> None:
    story = "".join(produced(19, partition=index) + "+400ms\n" for index in range(9))
    [finding] = family_e(story)
    assert finding.message.startswith("5 of 5 Produce requests")
    assert "for orders[0], orders[1], orders[2] and 2 more" in finding.message


@pytest.mark.parametrize("code", [14, 15, 16, 27, 79])
def test_the_first_use_of_a_group_is_silent(code: int) -> None:
    assert not family_e(4 * (heartbeat(code) + "+1s\n") + heartbeat(0))


@pytest.mark.parametrize("code", sorted(generic()))
def test_a_single_error_is_a_problem_exactly_if_it_does_not_pass(code: int) -> None:
    found = family_e(ended(code))
    expected = judgement("EndTxn", code).nature is Nature.FINAL
    assert [finding.code for finding in found] == (["E001"] if expected and not owned(code) else [])


def owned(code: int) -> bool:
    """Whether another rule reports the first occurrence of an error."""
    return any(findings(ended(code), each) for each in OWNERS.get(code, ()))


def test_the_values_of_the_request_that_matter_are_quoted() -> None:
    [finding] = family_e('> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 1000}\n< {"error_code": 26}\n')
    assert finding.message.startswith(
        "JoinGroup of client 'app' was refused with INVALID_SESSION_TIMEOUT for group 'g' (session_timeout_ms is 1000)"
    )
    story = (
        '> OffsetForLeaderEpoch v4 {"topics": [{"topic": "orders", "partitions": ['
        '{"partition": 0, "current_leader_epoch": 5}, {"partition": 1, "current_leader_epoch": 11}]}]}\n'
        '< {"topics": [{"topic": "orders", "partitions": [{"partition": 0}, {"partition": 1, "error_code": 74}]}]}\n'
        "+3s\n"
    )
    [finding] = family_e(3 * story)
    assert "for orders[1] (current_leader_epoch is 11)" in finding.message


def test_the_brokers_message_is_quoted_bounded_and_printable() -> None:
    records = [{"batch_index": 3, "batch_index_error_message": "bad \u001b[31m record " + "x" * 500}]
    [finding] = family_e(produced(87, record_errors=records))
    assert 'the broker says "bad \\x1b[31m record xxx' in finding.message
    assert finding.message.endswith('xxx..."')
    assert len(finding.message) < 600


def test_a_message_that_says_nothing_is_not_quoted() -> None:
    for text in ("NONE", "INVALID_RECORD", "", " "):
        [finding] = family_e(produced(87, error_message=text))
        assert "broker says" not in finding.message


def test_a_message_is_not_quoted_if_the_request_has_a_secret() -> None:
    def altered(name: str) -> str:
        [finding] = family_e(
            '> IncrementalAlterConfigs v1 {"resources": [{"resource_type": 4, "resource_name": "1", "configs": ['
            f'{{"name": "{name}", "value": "hunter2"}}]}}]}}\n'
            '< {"responses": [{"error_code": 40, "error_message": "Invalid value hunter2", "resource_type": 4, '
            '"resource_name": "1"}]}\n'
        )
        return finding.message

    assert "Invalid value hunter2" in altered("log.retention.ms")
    assert "hunter2" not in altered("listener.name.sasl.jaas.config")


def test_several_topics_with_one_error_are_one_finding() -> None:
    topics = [{"name": f"t{index}", "error_code": 44} for index in range(5)]
    asked = [{"name": f"t{index}"} for index in range(5)]
    [finding] = family_e(f"> CreateTopics v5 {json.dumps({'topics': asked})}\n< {json.dumps({'topics': topics})}\n")
    assert "for topic t0, topic t1, topic t2 and 2 more" in finding.message
    assert finding.severity == "warning"


def test_a_topic_that_exists_is_no_harm() -> None:
    [finding] = family_e(
        '> CreateTopics v5 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 36}]}\n'
    )
    assert finding.severity == "info"


def test_an_invalid_request_is_explained_for_the_topic_that_was_refused() -> None:
    """Of tulios/kafkajs#1162: only one of the topics is wrong."""
    right = {"name": "right", "num_partitions": 1, "replication_factor": 1}
    wrong = {**right, "name": "wrong", "assignments": [{"partition_index": 0, "broker_ids": [1]}]}
    story = (
        f"> CreateTopics v5 {json.dumps({'topics': [right, wrong]})}\n"
        '< {"topics": [{"name": "right", "error_code": 42}, {"name": "wrong", "error_code": 42}]}\n'
    )
    found = {finding.code: finding for finding in family_e(story)}
    assert set(found) == {"E001", "E003"}
    assert "topic wrong: num_partitions and replication_factor must be -1 with assignments" in found["E003"].message
    assert "for topic right" in found["E001"].message, "nothing is known to be wrong with this one"
    assert "wrong" not in found["E001"].message


def test_an_empty_list_of_assignments_is_not_null() -> None:
    def grown(assignments: str, code: int) -> str:
        asked = f'{{"topics": [{{"name": "t", "count": 6, "assignments": {assignments}}}]}}'
        return f'> CreatePartitions v1 {asked}\n< {{"results": [{{"name": "t", "error_code": {code}}}]}}\n'

    [finding] = family_e(grown("[]", 39))
    assert finding.code == "E003"
    assert "assignments is an empty list, which assigns none of the new partitions" in finding.message
    assert "send assignments null" in (finding.hint or "")
    assert not family_e(grown("[]", 0))
    assert [finding.code for finding in family_e(grown('[{"broker_ids": [1]}]', 39))] == ["E001"]


def test_a_partial_join_is_explained() -> None:
    """Of confluentinc/librdkafka#5541."""
    [finding] = family_e(
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
    found = {rule.code: rule for rule in rules.rules()}
    for error, named in OWNERS.items():
        for code in named:
            assert any(set(trigger.events) & set(FRAME_EVENTS) for trigger in found[code].triggers), (error, code)


def test_only_those_that_check_the_responses_of_an_api_get_more_time() -> None:
    assert owners("Metadata", Error.LEADER_NOT_AVAILABLE) == ("S006", "S011")
    assert owners("ListOffsets", Error.LEADER_NOT_AVAILABLE) == ()
    assert owners("EndTxn", Error.COORDINATOR_NOT_AVAILABLE) == ("S023",)


def test_what_a_rule_found_in_the_request_explains_its_refusal() -> None:
    batches = 2 * [{"records": [{"key": "k", "value": "v"}]}]
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": batches}]}]
    sent = f"> Produce v9 {json.dumps({'acks': -1, 'topic_data': topics})}\n"
    refused = produced(87).split("\n", 1)[1]
    assert {finding.code for finding in findings(sent + refused)} & {"R024", "E001"} == {"R024"}
    assert {finding.code for finding in findings(PRODUCE + refused)} & {"R024", "E001"} == {"E001"}


def test_an_owner_speaks_alone() -> None:
    denied = '> Metadata v9 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 29}]}\n'
    assert {finding.code for finding in findings(denied)} & {"X014", "E001"} == {"X014"}


def test_if_the_owner_of_a_loop_is_silent_it_is_reported_nevertheless() -> None:
    """A client that never looks up the coordinator is none of S022."""
    denied = (
        '> OffsetFetch v8 {"groups": [{"group_id": "g"}]}\n< {"groups": [{"group_id": "g", "error_code": 16}]}\n+2s\n'
    )
    asked = '> FindCoordinator v2 {"key": "g"}\n< {"node_id": 1, "host": "kafka-1", "port": 9092}\n'
    assert {finding.code for finding in findings(6 * denied)} >= {"E002"}
    codes = [finding.code for finding in findings(9 * (asked + denied))]
    assert codes.count("S022") == 1
    assert codes.count("E002") <= 1


def test_another_owner_may_have_spoken_of_another_frame_of_the_loop() -> None:
    """S008 reports the Metadata response that still names the leader which denies it."""
    story = (
        '> Metadata v8 {"topics": [{"name": "orders"}]}\n'
        '< {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "topics": [{"name": "orders", "partitions": '
        '[{"partition_index": 0, "leader_id": 1}]}]}\n' + produced(6) + "+600ms\n"
    )
    assert {"S008", "E002"} & {finding.code for finding in findings(30 * story)} == {"S008"}


def test_errors_in_a_layout_that_is_only_guessed_are_not_judged() -> None:
    story = (
        '> Heartbeat v1 {"group_id": "g", "member_id": "m"}\n< {"error_code": 42} with moved:throttle_time_ms:last\n'
    )
    assert not family_e(story)


def test_successes_are_observed_for_the_refused_api_alone_and_not_forever() -> None:
    teller = Teller()
    run = teller.inspector._inspection.run_state
    teller.tell(heartbeat(0) + produced(0))
    assert "E002 Produce" not in run.subscribed
    teller.tell(produced(19) + heartbeat(0))
    observing = {each for each in run.subscribed if each.startswith("E002")}
    assert observing == {"E002 Produce"}
    teller.tell(produced(0, partition=1))
    assert "E002 Produce" in run.subscribed, "the success of another partition ends nothing"
    teller.tell(produced(0))
    assert "E002 Produce" not in run.subscribed
    teller.tell(produced(19) + "+61s\n" + produced(0, partition=1))
    assert "E002 Produce" not in run.subscribed, "although this partition was refused to the end"


def test_a_response_without_errors_costs_little_once_no_error_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    teller = Teller()
    teller.tell(produced(19) + produced(0))
    read = []
    for name in ("refusals", "results", "client_key", "_note_success"):
        monkeypatch.setattr(refused_repeatedly, name, lambda *_, name=name: read.append(name))
    teller.tell(5 * produced(0))
    assert not read


def test_a_subscription_to_one_api_is_no_subscription_to_others() -> None:
    dispatch = rules._interested
    for api, expected in (("Produce", True), ("Heartbeat", False)):
        chosen = dispatch._choose(ResponseReceived, api, 1, True, 0, frozenset({"E002 Produce"}))
        assert ("E002" in [finding.code for finding in chosen]) is expected


def test_an_error_that_the_request_contradicts_is_the_brokers_fault() -> None:
    asked = '> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "member_id": "%s"}\n'
    loop = 9 * (asked.replace("%s", "m-1") + '< {"error_code": 79, "member_id": "m-1"}\n+500ms\n')
    [finding] = family_e(loop)
    assert (finding.code, finding.blame) == ("E002", "broker")
    assert "requires a member id although the request has one" in finding.message
    assert not family_e(asked.replace("%s", "") + '< {"error_code": 79, "member_id": "m-1"}\n')
    [finding] = family_e(asked.replace("%s", "") + '< {"error_code": 24}\n')
    assert (finding.code, finding.blame) == ("E001", "broker")
    [finding] = family_e(asked.replace('"g"', '""').replace("%s", "") + '< {"error_code": 24}\n')
    assert (finding.code, finding.blame) == ("E003", "client")


def test_an_error_that_its_own_response_contradicts() -> None:
    def partition(leader: int) -> str:
        row = {"error_code": 5, "partition_index": 0, "leader_id": leader}
        topics = [{"name": "orders", "partitions": [row]}]
        return f'> Metadata v8 {{"topics": [{{"name": "orders"}}]}}\n< {json.dumps({"topics": topics})}\n'

    [finding] = family_e(partition(3))
    assert (finding.code, finding.blame, finding.severity) == ("E001", "broker", "warning")
    assert "names a leader of the partition nevertheless" in finding.message
    assert not family_e(partition(-1))


def test_a_producer_that_gave_up_is_reported() -> None:
    refused = produced(45)
    [finding] = family_e(refused + "+6s\n")
    assert (finding.code, finding.severity) == ("E005", "error")
    assert finding.message.startswith(
        "client 'app' has sent no Produce and no InitProducerId for 5 s since its last Produce was refused with "
        "OUT_OF_ORDER_SEQUENCE_NUMBER for orders[0]"
    )
    [closed] = family_e(refused + "close\n+6s\n")
    assert closed.message.startswith(
        "client 'app' closed its connection after its last Produce was refused with OUT_OF"
    )
    assert not family_e(refused + "open 3 client=10.0.0.101:50010\n+1s\n3 close\n" + produced(0)), "of another one"
    assert not family_e(refused + '> InitProducerId v3 {"transactional_id": null}\n+6s\n')
    opened = "open 2 client=10.0.0.101:50009\n"
    assert not family_e(refused + opened + "2" + PRODUCE + "+6s\n"), "the same client on another connection"
    assert family_e(refused + opened + "2" + PRODUCE.replace("> ", "> as other ") + "+6s\n"), "another client"


def test_a_response_with_very_many_errors_is_judged_in_parts() -> None:
    topics = [{"name": f"t{index}", "error_code": 44 if index % 2 else 36} for index in range(5_000)]
    asked = [{"name": f"t{index}"} for index in range(5_000)]
    found = family_e(f"> CreateTopics v5 {json.dumps({'topics': asked})}\n< {json.dumps({'topics': topics})}\n")
    assert sorted(finding.severity for finding in found) == ["info", "warning"]
    assert all("and 97 more" in each.message for each in found)


def test_what_may_have_succeeded_unseen_is_no_loop() -> None:
    def answered(code: int, others: int) -> str:
        rows = [{"index": index, "error_code": 0, "base_offset": 1} for index in range(1, others)]
        rows.append({"index": 0, "error_code": code, "base_offset": -1})
        return PRODUCE + f"< {json.dumps({'responses': [{'name': 'orders', 'partition_responses': rows}]})}\n+1s\n"

    assert family_e(4 * answered(19, 1_100)), "refused each time"
    assert not family_e(2 * answered(19, 1_100) + answered(0, 1_100) + 2 * answered(19, 1_100))


def test_owners_are_asked_about_this_client_and_not_about_contradictions() -> None:
    connection = ConnectionState(client="10.0.0.7:50001", client_id="app")
    connection.note_problem("S014", 5)
    code = Error.MEMBER_ID_REQUIRED
    refused = ReturnedError((), code, code.name, (), {}, judgement("JoinGroup", code))
    assert has_owner_spoken(refused, connection, since=5)
    assert not has_owner_spoken(refused, connection, since=6)
    assert not has_owner_spoken(refused._replace(contradicted=True), connection, since=5)
    connection.client_id = "other"
    assert not has_owner_spoken(refused, connection, since=5)


def committed(code: int) -> str:
    row = {"name": "t", "partitions": [{"error_code": code}]}
    asked = {"group_id": "g", "topics": [{"name": "t", "partitions": [{"committed_offset": 7}]}]}
    return f"> OffsetCommit v7 {json.dumps(asked)}\n< {json.dumps({'topics': [row]})}\n"


def test_a_client_that_waits_longer_and_longer_is_reported_before_its_next_attempt() -> None:
    attempts = "".join(committed(15) + f"+{wait}ms\n" for wait in (250, 500, 1000, 2500))
    success = committed(0)
    [finding] = loops(attempts + "+6s\n")
    assert finding.message.startswith(
        "4 of 4 OffsetCommit requests of client 'app' were refused with COORDINATOR_NOT_A"
    )
    assert not loops(attempts + success + "+9s\n")
    assert not loops(attempts + "+3s\n"), "it may pass until then"


def test_a_client_that_gives_up_after_an_error_that_passes() -> None:
    [finding] = given_up(committed(14) + "+9s\n")
    assert (finding.severity, finding.direction, finding.offset) == ("warning", "request", 0)
    assert finding.message.startswith(
        "OffsetCommit of client 'app' was refused with COORDINATOR_LOAD_IN_PROGRESS for group 'g', t[0], and the "
        "client has sent no OffsetCommit for 8 s since: the coordinator is still loading"
    )
    assert not given_up(committed(14) + "+2s\n" + committed(0) + "+9s\n")
    other = committed(0).replace("> ", "> as other ")
    assert given_up(committed(14) + other + "+9s\n"), "another client's request is none of it"
    joins = '> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}\n'
    assert not given_up(committed(14) + joins + '< {"error_code": 0, "generation_id": 2}\n+9s\n'), "it rejoins instead"
    assert not given_up(committed(25) + "+9s\n"), "that is G011"
    assert not given_up('> FindCoordinator v2 {"key": "g"}\n< {"error_code": 15}\n+9s\n'), "made when it is needed"
    assert not given_up(committed(28) + "+9s\n"), "an error that does not pass"


def test_a_client_that_ends_after_an_error_that_passes() -> None:
    closed = committed(16) + "close by=client how=fin\n"
    [finding] = given_up(closed + "+3s\n")
    assert finding.severity == "info"
    assert "and the client closed its connections without repeating it" in finding.message
    opened = "open 2 client=10.0.0.101:50009\n2> as app Metadata v8\n2< {}\n"
    assert not given_up(opened + closed + "+3s\n"), "it has another connection"
    again = "open 3 client=10.0.0.101:50010\n3" + committed(0).replace("> ", "> as app ").replace("<", "3<", 1)
    assert not given_up(closed + "+1s\n" + again + "+9s\n"), "it has connected again"
    assert not given_up(committed(3) + "+9s\n"), "the topic does not exist"
    assert not given_up(committed(16) + "close by=server how=fin\n+3s\n"), "it may connect again"
    assert not given_up(committed(16) + "close\n+9s\n"), "nobody sees what it does"


def test_what_several_targets_share_is_named_once() -> None:
    rows = [{"partition_index": index, "error_code": 12} for index in range(2)]
    asked = {"group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]}
    answer = json.dumps({"topics": [{"name": "t", "partitions": rows}]})
    [finding] = family_e(f"> OffsetCommit v7 {json.dumps(asked)}\n< {answer}\n")
    assert "was refused with OFFSET_METADATA_TOO_LARGE for group 'g', t[0], t[1]: " in finding.message


def test_what_a_client_asks_between_refused_attempts_is_no_loop_of_its_own() -> None:
    look_up = '> FindCoordinator v3 {"key": "g"}\n< {"node_id": 1, "host": "kafka-1", "port": 9092}\n+300ms\n'
    syncs = 3 * (
        '2> SyncGroup v3 {"group_id": "g", "generation_id": 1, "member_id": "m"}\n2< {"error_code": 15}\n+100ms\n'
    )
    opened = "open 2 client=10.0.0.101:50009\n"
    assert not findings(opened + syncs + 25 * look_up, "S067")
    assert findings(25 * look_up, "S067")


def test_a_client_that_connects_again_after_each_refusal_has_no_reconnect_storm() -> None:
    visits = "".join(
        f'open {number} client=10.0.0.101:{50_000 + number}\n{number}> Metadata v8 {{"topics": []}}\n{number}< {{}}\n'
        f"{number} close by=client how=fin\n+300ms\n"
        for number in range(2, 14)
    )
    assert findings(visits, "C017")
    assert not findings(committed(16) + visits, "C017")


def test_a_codec_that_the_version_has_is_no_reason_to_refuse_it() -> None:
    fetch = '> Fetch v{} {{"topics": [{{"topic": "t", "partitions": [{{}}]}}]}}\n'
    answer = '< {"responses": [{"topic": "t", "partitions": [{"error_code": 76}]}]}\n'
    [finding] = family_e(fetch.format(11) + answer)
    assert (finding.code, finding.blame) == ("E001", "broker")
    assert not family_e(fetch.format(4) + answer), "R013 says that this one needs a newer version"
