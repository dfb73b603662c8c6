"""S045, S068 to S075 and S099: cases that the stories on their pages do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissectors.trackers.triggers import FrameFlags
from tests.kproxy.stories import StoryPlayer, findings


def metadata(*brokers: tuple[int, str]) -> str:
    rows = [{"node_id": node_id, "host": host, "port": 9092} for node_id, host in brokers]
    topics = [{"name": "orders", "partitions": [{"leader_id": brokers[0][0]}]}]
    return f'> Metadata v9 {{"topics": [{{"name": "orders"}}]}}\n< {json.dumps({"brokers": rows, "topics": topics})}\n'


def coordinator(node_id: int, host: str = "10.0.0.1", error: int = 0) -> str:
    response = {"node_id": node_id, "host": host, "port": 9092, "error_code": error}
    return f'> FindCoordinator v3 {{"key": "billing"}}\n< {json.dumps(response)}\n+100ms\n'


def test_address_with_two_node_ids_is_blamed_on_the_broker() -> None:
    story = 12 * (metadata((0, "10.0.0.1")) + coordinator(1))
    [finding] = findings(story, "S068")
    assert finding.message == (
        "FindCoordinator names node 1 at 10.0.0.1:9092 as the coordinator of group 'billing', but Metadata of the same "
        "server calls that address node 0, and has no node 1"
    )
    assert finding.blame == "broker"
    assert not findings(story, "S005")  # the client is not to blame, nor its network


def test_lookup_loop_is_reported_without_a_contradiction() -> None:
    assert findings(12 * (metadata((0, "10.0.0.1")) + "+100ms\n"), "S005")


@pytest.mark.parametrize("lookups", [coordinator(-1, "", error=15), coordinator(0), 2 * coordinator(7, "10.0.0.7")])
def test_consistent_coordinator_is_not_reported(lookups: str) -> None:
    assert not findings(metadata((0, "10.0.0.1")) + lookups, "S068")


def test_cluster_may_have_changed_after_a_minute() -> None:
    assert not findings(metadata((0, "10.0.0.1")) + "+61s\n" + coordinator(1), "S068")


def test_metadata_of_another_server_may_differ() -> None:
    other_server = "open 2 server=10.9.9.9:9092\n" + coordinator(1).replace(">", "2>").replace("<", "2<")
    assert not findings(metadata((0, "10.0.0.1")) + other_server, "S068")


PRODUCE = (
    '> Produce v11 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": ['
    '{"records": [{"records": [{}]}]}]}]}\n'
)


def not_leader(leader: int, *endpoints: int) -> str:
    nodes = [{"node_id": endpoint, "host": f"10.0.0.{endpoint}", "port": 9092} for endpoint in endpoints]
    partition = {"error_code": 6, "base_offset": -1, "current_leader": {"leader_id": leader, "leader_epoch": 6}}
    response = {"responses": [{"name": "orders", "partition_responses": [partition]}]}
    return PRODUCE + f"< {json.dumps(response | ({'node_endpoints': nodes} if nodes else {}))}\n+500ms\n"


BROKERS = metadata((1, "10.0.0.1"), (2, "10.0.0.2"), (3, "10.0.0.3"))


def test_hint_with_the_endpoint_of_another_broker_is_blamed_on_the_broker() -> None:
    story = BROKERS + 9 * not_leader(1, 3)
    [finding] = findings(story, "S069")
    assert finding.message == (
        "current_leader of orders[0] is 1, but node_endpoints has only node 3, and node 1 itself answered "
        "NOT_LEADER_OR_FOLLOWER: 10.0.0.1:9092 contradicts itself"
    )
    assert finding.path == "responses[0].partition_responses[0].current_leader.leader_id"
    assert not findings(story, "S007")


def test_client_that_ignores_a_correct_hint_is_blamed() -> None:
    story = BROKERS + 9 * not_leader(3, 3)
    assert not findings(story, "S069")
    assert findings(story, "S007")


def test_server_that_names_itself_as_leader_is_reported_the_third_time() -> None:
    assert not findings(BROKERS + 2 * not_leader(1), "S069")
    [finding] = findings(BROKERS + 3 * not_leader(1), "S069")
    assert "current_leader of orders[0] is 1, but node 1 itself answered" in finding.message


def test_missing_hint_is_not_a_contradiction() -> None:
    assert not findings(BROKERS + 3 * not_leader(-1), "S069")


def fetch_records(offset: int, request_fields: dict[str, Any] | None = None, **partition_fields: Any) -> str:
    request = {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": offset}]}]} | (request_fields or {})
    records = [{"base_offset": offset, "last_offset_delta": 2, "records": [{}, {}, {}]}]
    response = {"responses": [{"topic": "orders", "partitions": [{"records": records} | partition_fields]}]}
    return f"> Fetch v11 {json.dumps(request)}\n< {json.dumps(response)}\n"


def test_missing_high_watermark_is_reported() -> None:
    [finding] = findings(4 * fetch_records(40, high_watermark=-1), "S070")
    assert finding.message == (
        "high_watermark of orders[0] is -1 in a successful response with records up to 42: the broker has not filled "
        "in the high watermark"
    )
    assert finding.path == "responses[0].partitions[0].high_watermark"


@pytest.mark.parametrize("end", [40, 41, 43])  # Kafka reads it before the records
def test_batch_written_during_the_fetch_is_not_reported(end: int) -> None:
    assert not findings(fetch_records(40, high_watermark=end), "S070")


def test_last_stable_offset_must_cover_committed_records() -> None:
    [finding] = findings(fetch_records(40, {"isolation_level": 1}, high_watermark=90, last_stable_offset=30), "S070")
    assert finding.message.startswith("last_stable_offset of orders[0] is 30 in a successful response with records up")
    assert not findings(fetch_records(40, high_watermark=90, last_stable_offset=-1), "S070")


def test_missing_entry_of_a_response_is_named() -> None:
    request = '> OffsetFetch v1 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0, 1]}]}\n'
    [finding] = findings(request + '< {"topics": []}\n', "S045")
    assert finding.message == (
        "OffsetFetch requested 1 entry of topics (orders[0,1]), but the response has an empty list of topics, without "
        "an error"
    )
    assert finding.hint is not None
    assert "OffsetFetch v1 has no field for an error of the group" in finding.hint
    [finding] = findings(
        request + '< {"topics": [{"name": "orders", "partitions": [{"partition_index": 1}]}]}\n', "S045"
    )
    assert "requested orders[0], but the response has no entry for it, and no error" in finding.message


def test_missing_entry_in_one_of_several_groups_is_named() -> None:
    groups = [{"group_id": name, "topics": [{"name": "t", "partition_indexes": [0]}]} for name in ("a", "b")]
    response_groups = [
        {"group_id": "a", "topics": [{"name": "t", "partitions": [{}]}]},
        {"group_id": "b", "topics": []},
    ]
    request = f"> OffsetFetch v8 {json.dumps({'groups': groups})}\n"
    [finding] = findings(request + f"< {json.dumps({'groups': response_groups})}\n", "S045")
    assert "requested t[0], but the response has no entry" in finding.message
    response_groups[1]["error_code"] = 16
    assert not findings(request + f"< {json.dumps({'groups': response_groups})}\n", "S045")


FULL_FETCH = '{"session_id": 0, "session_epoch": 0, "topics": [{"topic": "t", "partitions": [{}]}]}'


def test_produce_or_fetch_without_results_is_reported() -> None:
    produce = '> Produce v9 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{}]}]}\n'
    [finding] = findings(produce + '< {"responses": []}\n', "S045")
    assert finding.message.startswith(
        "Produce requested 1 entry of topic_data (t), but the response has an empty list of res"
    )
    assert not findings(produce + '< {"responses": [{"name": "t", "partition_responses": [{}]}]}\n', "S045")
    assert findings(f'> Fetch v11 {FULL_FETCH}\n< {{"responses": []}}\n', "S045")
    assert not findings(f'> Fetch v11 {FULL_FETCH}\n< {{"responses": [], "throttle_time_ms": 100}}\n', "S045"), (
        "throttled"
    )
    assert not findings(f'> Fetch v11 {FULL_FETCH}\n< {{"responses": [], "error_code": 71}}\n', "S045"), "refused"
    later_fetch = FULL_FETCH.replace('"session_epoch": 0', '"session_epoch": 3')
    assert not findings(f'> Fetch v11 {later_fetch}\n< {{"responses": []}}\n', "S045"), "a session without news"


def test_empty_list_that_must_have_entries_is_reported() -> None:
    request = '> ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}\n'
    [finding] = findings(request + '< {"api_keys": []}\n', "S045")
    assert finding.message.startswith("the ApiVersions response has an empty list of api_keys, without an error")
    assert not findings(request + '< {"api_keys": [], "error_code": 35}\n', "S045")
    assert findings('> SaslHandshake v1 {"mechanism": "PLAIN"}\n< {"mechanisms": []}\n', "S045")


def test_metadata_response_without_the_leader_is_reported() -> None:
    topic = '{"name": "t", "partitions": [{"leader_id": 1}]}'
    exchange = '> Metadata v8 {"topics": [{"name": "t"}]}\n< {"brokers": %s, "topics": [%s]}\n'
    [finding] = findings(exchange % ("[]", topic), "S004")
    assert "the Metadata response has an empty list of brokers, although partition 0 of topic 't'" in finding.message
    [finding] = findings(exchange % ('[{"node_id": 5, "host": "a", "port": 9092}]', topic), "S004")
    assert "has leader 1, which is not among its brokers (5)" in finding.message


@pytest.mark.parametrize(
    ("request_text", "response_text"),
    [
        ("DeleteTopics v4 {%s: ['t', 'u']}", "{'responses': [{'name': 't'}]}"),
        ("Metadata v8 {'topics': [{'name': 't'}, {'name': 'u'}]}", "{'topics': [{'name': 't'}]}"),
    ],
)
def test_requested_name_without_an_entry_is_reported(request_text: str, response_text: str) -> None:
    story = f"> {request_text}\n< {response_text}\n".replace("%s", "'topic_names'").replace("'", '"')
    [finding] = findings(story, "S045")
    assert "requested u, but the response has no entry for it" in finding.message


def test_topic_requested_twice_may_be_returned_twice() -> None:
    topic = '{"name": "t", "partitions": [{}]}'
    response = f'< {{"topics": [{topic}, {topic}]}}\n'
    assert findings(f'> Metadata v8 {{"topics": [{{"name": "t"}}]}}\n{response}', "S071")
    assert not findings(f'> Metadata v8 {{"topics": [{{"name": "t"}}, {{"name": "t"}}]}}\n{response}', "S071")


INIT = '> InitProducerId v4 {"transactional_id": "pay-1"}\n< {"producer_id": 9001, "producer_epoch": %d}\n'


def producer_request(epoch: int, api: str = "EndTxn v1", **more: Any) -> str:
    request_body = {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": epoch} | more
    return f"> {api} {json.dumps(request_body)}\n< {{}}\n"


def test_epoch_that_was_never_assigned_is_reported() -> None:
    [finding] = findings(INIT % 0 + producer_request(0) + 5 * producer_request(1), "S074")
    assert finding.message == (
        "producer 9001 uses epoch 1, but InitProducerId gave it epoch 0 and nothing gave it 1: the client has raised "
        "the epoch itself"
    )
    assert finding.path == "producer_epoch"


@pytest.mark.parametrize(
    "story",
    [
        INIT % 0 + INIT % 1 + producer_request(1),
        INIT % 3 + producer_request(2),  # an older instance, which the coordinator fences
        producer_request(1),  # it may have been assigned before the capture
        INIT % 0 + "lose < 100\n" + producer_request(1),
        INIT % 0 + "+1s\n" + producer_request(1).replace("9001", "9002"),
    ],
)
def test_epoch_that_may_have_been_assigned_is_not_reported(story: str) -> None:
    assert not findings(story, "S074")


def test_epochs_of_two_clients_are_independent() -> None:
    other_client = producer_request(1).replace(">", "2> as other").replace("<", "2<")
    assert not findings(INIT % 0 + other_client, "S074")


@pytest.mark.parametrize(
    "story",
    [
        INIT % 0 + producer_request(0, committed=False),
        INIT % 0 + producer_request(0, "EndTxn v5", committed=True),  # KIP-890: brokers add partitions
        INIT % 0 + "lose > 100\n" + producer_request(0, committed=True),
        producer_request(0, committed=True),
    ],
)
def test_end_of_a_possibly_nonempty_transaction_is_not_reported(story: str) -> None:
    assert not findings(story, "S073")


def test_empty_transaction_after_a_filled_one_is_reported() -> None:
    filled = producer_request(0, "AddOffsetsToTxn v1", group_id="g") + producer_request(0, committed=True)
    assert not findings(INIT % 0 + 2 * filled, "S073")
    [finding] = findings(INIT % 0 + filled + producer_request(0, committed=True), "S073")
    assert "transactional id 'pay-1' to which it has added no partition and no offsets" in finding.message


def join_with_user_data(user_data: str, member: str = "m") -> str:
    subscription = {"type": "ConsumerProtocolSubscription", "version": 0, "data": {"topics": ["t"],
                    "user_data": user_data}}  # fmt: skip
    request = {"group_id": "views", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000, "member_id": member,
             "protocol_type": "consumer", "protocols": [{"name": "sticky", "metadata": subscription}]}  # fmt: skip
    response = {"generation_id": 6, "protocol_name": "sticky", "leader": "m", "member_id": "m"}
    return f"> JoinGroup v5 {json.dumps(request)}\n< {json.dumps(response)}\n"


def sticky_user_data(generation: int, partitions: int = 1) -> str:
    """Return StickyAssignorUserData with that many partitions of topic t and the generation."""
    topics = b"\0\0\0\0" if not partitions else b"\0\0\0\1\0\1t" + partitions.to_bytes(4, "big") + bytes(4 * partitions)
    return (topics + generation.to_bytes(4, "big", signed=True)).hex(" ")


SYNCED = (
    '> SyncGroup v3 {"group_id": "views", "generation_id": 6, "member_id": "m", "assignments": [{"member_id": "m",'
    ' "assignment": "00 00 00 00 00 00 00 00 00 00"}]}\n< {"assignment": "00 00 00 00 00 00 00 00 00 00"}\n'
)


@pytest.mark.parametrize("generation", [-1, 5])
def test_user_data_with_an_old_generation_is_reported(generation: int) -> None:
    [finding] = findings(join_with_user_data("") + SYNCED + join_with_user_data(sticky_user_data(generation)), "S075")
    assert finding.message == (
        f"StickyAssignorUserData of member 'm' in group 'views' has generation {generation} with partitions that it "
        "got in generation 6, its previous generation"
    )


@pytest.mark.parametrize(
    "story",
    [
        join_with_user_data("") + SYNCED + join_with_user_data(sticky_user_data(6)),
        join_with_user_data("") + SYNCED + join_with_user_data(sticky_user_data(-1, partitions=0)),  # it claims nothing
        join_with_user_data("") + join_with_user_data(sticky_user_data(-1)),  # it has no assignment yet
        join_with_user_data("") + SYNCED + join_with_user_data(sticky_user_data(-1), member="n"),
        join_with_user_data("") + SYNCED + join_with_user_data("00 01 02"),  # from another assignor
    ],
)
def test_consistent_user_data_is_not_reported(story: str) -> None:
    assert not findings(story, "S075")


def form_generation(generation: int, *members: str, leader_only: bool = False) -> str:
    """Let all members join a generation and sync; each has its own connection, and the first one is the leader."""
    rows = [{"member_id": member} for member in members]
    join_body = '{"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "%s"}'
    visible_members = members[:1] if leader_only else members
    lines = [f"{number}> JoinGroup v5 {join_body % member}\n" for number, member in enumerate(visible_members, 1)]
    for number, member in enumerate(visible_members, 1):
        response = {"generation_id": generation, "leader": members[0], "member_id": member, "members": rows}
        lines.append(f"{number}< {json.dumps(response)}\n")
        rows = []
    for number, member in enumerate(visible_members, 1):
        sync = {"group_id": "g", "generation_id": generation, "member_id": member}
        lines.append(f"{number}> SyncGroup v3 {json.dumps(sync)}\n{number}< {{}}\n")
    return "".join(lines) + "+1s\n"


def answer_request(
    generation: int, error: int, *, api: str = "Heartbeat v3", connection: str = "1", member: str = "a"
) -> str:
    name = "generation_id_or_member_epoch" if "Commit" in api else "generation_id"
    request: dict[str, Any] = {"group_id": "g", name: generation, "member_id": member}
    response: dict[str, Any] = {"error_code": error}
    if "Commit" in api:
        request["topics"] = [{"name": "t", "partitions": [{"committed_offset": 1}]}]
        response = {"topics": [{"name": "t", "partitions": [{"error_code": error}]}]}
    return f"{connection}> {api} {json.dumps(request)}\n{connection}< {json.dumps(response)}\n"


def test_repeated_rebalance_without_a_reason_is_blamed_on_the_coordinator() -> None:
    story = "".join(form_generation(n, "a", "b") + answer_request(n, 27) for n in range(1, 30))
    first, *_ = findings(story, "S078")
    assert "with REBALANCE_IN_PROGRESS for the 3rd time" in first.message
    assert "leads to the same 2 members" in first.message
    assert not findings(story, "S012")
    # a member that joins, leaves, is new or is not visible may be the reason
    join_request = form_generation(0, "b").splitlines()[0].removeprefix("1") + "\n"
    with_join = "".join(
        form_generation(n, "a", "b") + f"{n + 2}{join_request}" + answer_request(n, 27) for n in range(1, 9)
    )
    assert not findings(with_join, "S078")
    assert not findings("".join(form_generation(n, "a", f"b{n}") + answer_request(n, 27) for n in range(1, 9)), "S078")
    assert not findings(
        "".join(form_generation(n, "a", "b", leader_only=True) + answer_request(n, 27) for n in range(1, 9)), "S078"
    )
    assert not findings(
        "".join(form_generation(n, "a", "b") + answer_request(n, 0) + answer_request(n, 27) for n in range(1, 9)),
        "S078",
    )
    leave_request = '2> LeaveGroup v1 {"group_id": "g", "member_id": "b"}\n2< {}\n'
    assert not findings(
        "".join(form_generation(n, "a", "b") + leave_request + answer_request(n, 27) for n in range(1, 9)), "S078"
    )
    distant = "".join(form_generation(n, "a", "b") + "+61s\n" + answer_request(n, 27) for n in range(1, 9))
    assert not findings(distant, "S078")


@pytest.mark.parametrize("api", ["Heartbeat v3", "OffsetCommit v7"])
def test_newest_generation_must_not_be_refused_as_illegal(api: str) -> None:
    story = "".join(form_generation(n, "a") + answer_request(n, 22, api=api) for n in (1, 2))
    [finding] = findings(story, "S078")
    assert "2 times in a row" in finding.message
    assert "for generation 2, which it gave member 'a' 1 s before" in finding.message
    assert not findings(story, "S020")
    with_acceptance = (
        form_generation(1, "a")
        + answer_request(1, 22, api=api)
        + answer_request(1, 0, api=api)
        + answer_request(1, 22, api=api)
    )
    assert not findings(with_acceptance, "S078")
    superseded = "".join(
        form_generation(n, "a") + form_generation(n + 1, "b", leader_only=True) + answer_request(n, 22, api=api)
        for n in (1, 3)
    )
    assert not findings(superseded, "S078")
    assert findings(superseded, "S020")


def test_member_with_a_live_session_must_not_be_unknown() -> None:
    story = (
        form_generation(1, "a")
        + answer_request(1, 25)
        + form_generation(2, "b", leader_only=True)
        + answer_request(2, 25, member="b")
    )
    [finding] = findings(story, "S078")
    assert "it accepted a request of member 'b' 1 s before, which has not left" in finding.message
    for between in "+11s\n", '1> LeaveGroup v1 {"group_id": "g", "member_id": "a"}\n1< {}\n':
        assert not findings(2 * (form_generation(1, "a") + between + answer_request(1, 25)), "S078")
    assert not findings(2 * (form_generation(1, "a") + answer_request(1, 27) + "+2s\n" + answer_request(1, 25)), "S078")


def fetch_with_fields(fields: str, *, isolation: int = 0) -> str:
    request = (
        f'{{"isolation_level": {isolation}, "topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 40}}]}}]}}'
    )
    return (
        f"> Fetch v11 {request}\n"
        f'< {{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": 45, "last_stable_offset": 45, {fields}, '
        '"records": [{"base_offset": 40, "last_offset_delta": 1, "records": [{}, {"offset": 41}]}]}]}]}\n'
    )


def test_records_before_the_log_start_offset_are_reported() -> None:
    [finding] = findings(fetch_with_fields('"log_start_offset": 45'), "S080")
    assert finding.message == (
        "log_start_offset of t[0] is 45, its high watermark, in a response with records from 40 on, "
        "which should already have been deleted"
    )
    assert finding.path == "responses[0].partitions[0].log_start_offset"
    assert "its high watermark" not in findings(fetch_with_fields('"log_start_offset": 42'), "S080")[0].message
    assert not findings(fetch_with_fields('"log_start_offset": 41'), "S080")


def test_aborted_transactions_are_only_for_read_committed() -> None:
    aborted_field = '"aborted_transactions": [{"producer_id": 5, "first_offset": 40}]'
    [finding] = findings(fetch_with_fields(aborted_field), "S081")
    assert "lists 1 aborted transaction although" in finding.message
    assert "producer 5 from 40 on" in finding.message
    assert not findings(fetch_with_fields(aborted_field, isolation=1), "S081")


@pytest.mark.parametrize(
    ("cursor", "is_correct"),
    [
        ('{"topic_name": "t", "partition_index": 2}', False),
        ('{"topic_name": "s", "partition_index": 9}', False),
        ('{"topic_name": "t", "partition_index": 3}', True),
        ('{"topic_name": "u", "partition_index": 0}', True),
        ("null", True),
    ],
)
def test_next_cursor_must_advance(cursor: str, is_correct: bool) -> None:
    request = '{"topics": [{"name": "t"}], "cursor": {"topic_name": "t", "partition_index": 2}}'
    story = f'> DescribeTopicPartitions v0 {request}\n< {{"topics": [], "next_cursor": {cursor}}}\n'
    assert bool(findings(story, "S082")) is not is_correct
    assert not findings(story.replace('"cursor": {"topic_name": "t", "partition_index": 2}', '"cursor": null'), "S082")


def test_single_missing_count_of_a_created_topic_is_reported() -> None:
    response = '{"topics": [{"name": "t", "num_partitions": 3, "replication_factor": -1}]}'
    [finding] = findings(f'> CreateTopics v5 {{"topics": [{{"name": "t"}}]}}\n< {response}\n', "S083")
    assert finding.message == "topic t was created, but replication_factor of the response is -1"


def fetch_committed(stable: int, *, records: str = '""', offset: int = 6) -> str:
    partition = f'{{"high_watermark": 9, "last_stable_offset": {stable}, "records": {records}}}'
    request = f'{{"isolation_level": 1, "topics": [{{"topic": "t", "partitions": [{{"fetch_offset": {offset}}}]}}]}}'
    return f'> Fetch v11 {request}\n< {{"responses": [{{"topic": "t", "partitions": [{partition}]}}]}}\n'


OPEN_TRANSACTION = (
    '[{"base_offset": 4, "records": [{}]}, {"base_offset": 5, "is_transactional": true, "records": [{}]}]'
)


@pytest.mark.parametrize(("next_stable", "is_correct"), [(5, False), (4, False), (6, True), (-1, True)])
def test_last_stable_offset_below_returned_records_must_move(next_stable: int, is_correct: bool) -> None:
    first_fetch = fetch_committed(5, records=OPEN_TRANSACTION, offset=4)
    reported = findings(first_fetch + fetch_committed(next_stable), "S085")
    assert [finding.path for finding in reported] == (
        [] if is_correct else ["responses[0].partitions[0].last_stable_offset"]
    )
    assert not findings(fetch_committed(6, records=OPEN_TRANSACTION, offset=4) + fetch_committed(6), "S085")
    assert not findings(first_fetch + "+61s\n" + fetch_committed(next_stable), "S085")
    assert not findings(first_fetch + fetch_committed(next_stable).replace("> ", "2> ").replace("< ", "2< "), "S085")


FETCH_UP_TO_45 = fetch_with_fields('"log_start_offset": 0')


def list_offsets(timestamp: int, offset: int, *, isolation: int = 0) -> str:
    request = (
        f'{{"isolation_level": {isolation}, "topics": [{{"name": "t", "partitions": [{{"timestamp": {timestamp}}}]}}]}}'
    )
    return f'> ListOffsets v4 {request}\n< {{"topics": [{{"name": "t", "partitions": [{{"offset": {offset}}}]}}]}}\n'


def test_offset_shown_during_a_list_offsets_request_may_be_later() -> None:
    request, response, _ = list_offsets(-1, 0).split("\n")
    fetch = FETCH_UP_TO_45.replace("> ", "2> ").replace("< ", "2< ")
    assert not findings(f"{list_offsets(-1, 0)}{request}\n{fetch}{response}\n", "S089")


@pytest.mark.parametrize(
    ("setup", "pause", "latest", "reason"),
    [
        (
            list_offsets(-1, 0) + FETCH_UP_TO_45,
            "+1s\n",
            0,
            "has returned 45 as the high watermark of a fetch",
        ),
        (list_offsets(-1, 0) + FETCH_UP_TO_45, "+1s\n", 45, None),
        (list_offsets(-1, 0) + FETCH_UP_TO_45, "+11s\n", 0, None),
        (FETCH_UP_TO_45, "+1s\n", 0, None),  # fetches are not observed before the first ListOffsets
        (list_offsets(-2, 9), "+1s\n", 3, "has returned 9 as the earliest offset"),
        (list_offsets(-2, 9), "+1s\n", 9, None),
        (list_offsets(1_767_225_600_000, 9), "+1s\n", 3, None),
    ],
)
def test_latest_offset_must_not_be_below_a_previously_returned_offset(
    setup: str, pause: str, latest: int, reason: str | None
) -> None:
    reported = findings(setup + pause + list_offsets(-1, latest), "S089")
    assert [reason in finding.message for finding in reported if reason] == [True] * (reason is not None)
    assert len(reported) == (reason is not None)
    assert not findings(setup + pause + list_offsets(-1, latest, isolation=1), "S089")
    other_server = list_offsets(-1, latest).replace("> ", "2> ").replace("< ", "2< ")
    assert not findings("open 2 server=10.9.9.9:9092\n" + setup + pause + other_server, "S089")


def test_new_producer_epoch_runs_only_the_rules_about_epochs() -> None:
    """With transactions of version 2, producers have a new epoch for each transaction (KIP-890)."""
    produce = (
        '> Produce v7 {"transactional_id": "pay-1", "acks": -1, "topic_data": [{"name": "t", "partition_data": [{'
        '"records": [{"is_transactional": true, "producer_id": 9001, "producer_epoch": %d, "base_sequence": %d, '
        '"base_timestamp": 1700000000000, "max_timestamp": 1700000000000, "records": [{}]}]}]}]}\n'
    )
    player = StoryPlayer()
    player.play(INIT % 0 + produce % (0, 0) + produce % (0, 1))
    state = player.inspector._connections[1].connection_state
    ordinary_flags = state.flags
    player.play(produce % (1, 0))
    assert state.flags == ordinary_flags | FrameFlags.RAISED


def create_topic(*, validate_only: bool, error: int = 0, name: str = "t") -> str:
    request = {"topics": [{"name": name}], "validate_only": validate_only}
    response = {"topics": [{"name": name, "error_code": error, "num_partitions": 1, "replication_factor": 1}]}
    return f"> CreateTopics v5 {json.dumps(request)}\n< {json.dumps(response)}\n"


CREATED, VALIDATED = create_topic(validate_only=False), create_topic(validate_only=True)
ALREADY_EXISTS = create_topic(validate_only=False, error=36)


def test_accepting_a_topic_that_exists_with_validate_only_is_reported() -> None:
    [finding] = findings(f"{CREATED}+2s\n{VALIDATED}", "S099")
    assert finding.message == (
        "the broker accepts the creation of topic 't' with validate_only, but 2 s ago it said that the topic exists"
    )
    assert len(findings(ALREADY_EXISTS + VALIDATED, "S099")) == 1


def test_refusing_a_topic_soon_after_validate_only_accepted_it_is_reported() -> None:
    [finding] = findings(f"{VALIDATED}+2s\n{ALREADY_EXISTS}", "S099")
    assert finding.message == (
        "the broker says that topic 't' exists, but 2 s ago it accepted its creation with validate_only"
    )


@pytest.mark.parametrize(
    "story",
    [
        f"{VALIDATED}+1m\n{ALREADY_EXISTS}",  # another client may have created it
        f"{CREATED}+1m\n{VALIDATED}",  # another client may have deleted it
        f"{VALIDATED}{VALIDATED}{CREATED}",
        f"{CREATED}{ALREADY_EXISTS}{ALREADY_EXISTS}",
        f"{create_topic(validate_only=False, error=41)}{VALIDATED}",  # the controller has moved
        f"{CREATED}{create_topic(validate_only=True, name='u')}",
    ],
)
def test_creation_that_agrees_with_earlier_answers_is_right(story: str) -> None:
    assert findings(story, "S099") == []
