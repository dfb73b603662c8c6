"""S045 and S068 to S075: what the stories on their pages do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissectors.trackers.triggers import FrameFlags
from tests.kproxy.stories import Teller, findings


def metadata(*brokers: tuple[int, str]) -> str:
    rows = [{"node_id": node_id, "host": host, "port": 9092} for node_id, host in brokers]
    topics = [{"name": "orders", "partitions": [{"leader_id": brokers[0][0]}]}]
    return f'> Metadata v9 {{"topics": [{{"name": "orders"}}]}}\n< {json.dumps({"brokers": rows, "topics": topics})}\n'


def coordinator(node_id: int, host: str = "10.0.0.1", error: int = 0) -> str:
    answer = {"node_id": node_id, "host": host, "port": 9092, "error_code": error}
    return f'> FindCoordinator v3 {{"key": "billing"}}\n< {json.dumps(answer)}\n+100ms\n'


def test_one_address_with_two_node_ids_is_the_servers_fault() -> None:
    story = 12 * (metadata((0, "10.0.0.1")) + coordinator(1))
    [finding] = findings(story, "S068")
    assert finding.message == (
        "FindCoordinator names node 1 at 10.0.0.1:9092 as the coordinator of group 'billing', but Metadata of the same "
        "server calls that address node 0, and has no node 1"
    )
    assert finding.blame == "broker"
    assert not findings(story, "S005")  # the client is not to blame, nor its network


def test_without_a_contradiction_the_loop_is_the_clients() -> None:
    assert findings(12 * (metadata((0, "10.0.0.1")) + "+100ms\n"), "S005")


@pytest.mark.parametrize("told", [coordinator(-1, "", error=15), coordinator(0), 2 * coordinator(7, "10.0.0.7")])
def test_agreement_about_the_coordinator(told: str) -> None:
    assert not findings(metadata((0, "10.0.0.1")) + told, "S068")


def test_a_cluster_may_change_in_a_minute() -> None:
    assert not findings(metadata((0, "10.0.0.1")) + "+61s\n" + coordinator(1), "S068")


def test_metadata_of_another_server_may_differ() -> None:
    other = "open 2 server=10.9.9.9:9092\n" + coordinator(1).replace(">", "2>").replace("<", "2<")
    assert not findings(metadata((0, "10.0.0.1")) + other, "S068")


PRODUCE = (
    '> Produce v11 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": ['
    '{"records": [{"records": [{}]}]}]}]}\n'
)


def denied(leader: int, *endpoints: int) -> str:
    nodes = [{"node_id": endpoint, "host": f"10.0.0.{endpoint}", "port": 9092} for endpoint in endpoints]
    row = {"error_code": 6, "base_offset": -1, "current_leader": {"leader_id": leader, "leader_epoch": 6}}
    answer = {"responses": [{"name": "orders", "partition_responses": [row]}]}
    return PRODUCE + f"< {json.dumps(answer | ({'node_endpoints': nodes} if nodes else {}))}\n+500ms\n"


BROKERS = metadata((1, "10.0.0.1"), (2, "10.0.0.2"), (3, "10.0.0.3"))


def test_a_hint_with_the_endpoint_of_another_broker_is_the_servers_fault() -> None:
    story = BROKERS + 9 * denied(1, 3)
    [finding] = findings(story, "S069")
    assert finding.message == (
        "current_leader of orders[0] is 1, but node_endpoints has only node 3, and node 1 itself answered "
        "NOT_LEADER_OR_FOLLOWER: 10.0.0.1:9092 contradicts itself"
    )
    assert finding.path == "responses[0].partition_responses[0].current_leader.leader_id"
    assert not findings(story, "S007")


def test_a_client_that_ignores_a_right_hint_is_to_blame() -> None:
    story = BROKERS + 9 * denied(3, 3)
    assert not findings(story, "S069")
    assert findings(story, "S007")


def test_a_server_that_names_itself_is_believed_twice() -> None:
    assert not findings(BROKERS + 2 * denied(1), "S069")
    [finding] = findings(BROKERS + 3 * denied(1), "S069")
    assert "current_leader of orders[0] is 1, but node 1 itself answered" in finding.message


def test_no_hint_is_no_contradiction() -> None:
    assert not findings(BROKERS + 3 * denied(-1), "S069")


def read(base: int, asked: dict[str, Any] | None = None, **row: Any) -> str:
    request = {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": base}]}]} | (asked or {})
    records = [{"base_offset": base, "last_offset_delta": 2, "records": [{}, {}, {}]}]
    response = {"responses": [{"topic": "orders", "partitions": [{"records": records} | row]}]}
    return f"> Fetch v11 {json.dumps(request)}\n< {json.dumps(response)}\n"


def test_a_high_watermark_that_is_not_filled_in() -> None:
    [finding] = findings(4 * read(40, high_watermark=-1), "S070")
    assert finding.message == (
        "high_watermark of orders[0] is -1 in a successful response with records up to 42: the broker has not filled "
        "in the high watermark"
    )
    assert finding.path == "responses[0].partitions[0].high_watermark"


@pytest.mark.parametrize("end", [40, 41, 43])  # Kafka reads it before the records
def test_a_batch_that_is_written_meanwhile(end: int) -> None:
    assert not findings(read(40, high_watermark=end), "S070")


def test_read_committed_ends_at_the_last_stable_offset() -> None:
    [finding] = findings(read(40, {"isolation_level": 1}, high_watermark=90, last_stable_offset=30), "S070")
    assert finding.message.startswith("last_stable_offset of orders[0] is 30 in a successful response with records up")
    assert not findings(read(40, high_watermark=90, last_stable_offset=-1), "S070")


def test_what_is_missing_is_named() -> None:
    asked = '> OffsetFetch v1 {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0, 1]}]}\n'
    [finding] = findings(asked + '< {"topics": []}\n', "S045")
    assert finding.message == (
        "OffsetFetch requested 1 of topics (orders[0,1]), but the response has an empty list of topics, without an "
        "error"
    )
    assert finding.hint is not None
    assert "OffsetFetch v1 has no field for an error of the group" in finding.hint
    [finding] = findings(asked + '< {"topics": [{"name": "orders", "partitions": [{"partition_index": 1}]}]}\n', "S045")
    assert "requested orders[0], but the response has no entry for it, and no error" in finding.message


def test_what_is_missing_in_one_of_several_groups() -> None:
    groups = [{"group_id": name, "topics": [{"name": "t", "partition_indexes": [0]}]} for name in ("a", "b")]
    answered = [{"group_id": "a", "topics": [{"name": "t", "partitions": [{}]}]}, {"group_id": "b", "topics": []}]
    asked = f"> OffsetFetch v8 {json.dumps({'groups': groups})}\n"
    [finding] = findings(asked + f"< {json.dumps({'groups': answered})}\n", "S045")
    assert "requested t[0], but the response has no entry" in finding.message
    answered[1]["error_code"] = 16
    assert not findings(asked + f"< {json.dumps({'groups': answered})}\n", "S045")


FULL = '{"session_id": 0, "session_epoch": 0, "topics": [{"topic": "t", "partitions": [{}]}]}'


def test_a_produce_or_fetch_without_any_result() -> None:
    asked = '> Produce v9 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{}]}]}\n'
    [finding] = findings(asked + '< {"responses": []}\n', "S045")
    assert finding.message.startswith(
        "Produce requested 1 of topic_data (t), but the response has an empty list of res"
    )
    assert not findings(asked + '< {"responses": [{"name": "t", "partition_responses": [{}]}]}\n', "S045")
    assert findings(f'> Fetch v11 {FULL}\n< {{"responses": []}}\n', "S045")
    assert not findings(f'> Fetch v11 {FULL}\n< {{"responses": [], "throttle_time_ms": 100}}\n', "S045"), "throttled"
    assert not findings(f'> Fetch v11 {FULL}\n< {{"responses": [], "error_code": 71}}\n', "S045"), "refused"
    news = FULL.replace('"session_epoch": 0', '"session_epoch": 3')
    assert not findings(f'> Fetch v11 {news}\n< {{"responses": []}}\n', "S045"), "a session without news"


def test_lists_that_are_never_empty() -> None:
    versions = '> ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}\n'
    [finding] = findings(versions + '< {"api_keys": []}\n', "S045")
    assert finding.message.startswith("the ApiVersions response has an empty list of api_keys, without an error")
    assert not findings(versions + '< {"api_keys": [], "error_code": 35}\n', "S045")
    assert findings('> SaslHandshake v1 {"mechanism": "PLAIN"}\n< {"mechanisms": []}\n', "S045")


def test_a_metadata_response_without_brokers() -> None:
    topic = '{"name": "t", "partitions": [{"leader_id": 1}]}'
    asked = '> Metadata v8 {"topics": [{"name": "t"}]}\n< {"brokers": %s, "topics": [%s]}\n'
    [finding] = findings(asked % ("[]", topic), "S004")
    assert "the Metadata response has an empty list of brokers, although partition 0 of topic 't'" in finding.message
    [finding] = findings(asked % ('[{"node_id": 5, "host": "a", "port": 9092}]', topic), "S004")
    assert "has leader 1, which is not among its brokers (5)" in finding.message


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("DeleteTopics v4 {%s: ['t', 'u']}", "{'responses': [{'name': 't'}]}"),
        ("Metadata v8 {'topics': [{'name': 't'}, {'name': 'u'}]}", "{'topics': [{'name': 't'}]}"),
    ],
)
def test_a_name_without_an_entry(asked: str, answer: str) -> None:
    story = f"> {asked}\n< {answer}\n".replace("%s", "'topic_names'").replace("'", '"')
    [finding] = findings(story, "S045")
    assert "requested u, but the response has no entry for it" in finding.message


def test_a_topic_that_is_requested_twice_may_come_twice() -> None:
    topic = '{"name": "t", "partitions": [{}]}'
    answer = f'< {{"topics": [{topic}, {topic}]}}\n'
    assert findings(f'> Metadata v8 {{"topics": [{{"name": "t"}}]}}\n{answer}', "S071")
    assert not findings(f'> Metadata v8 {{"topics": [{{"name": "t"}}, {{"name": "t"}}]}}\n{answer}', "S071")


INIT = '> InitProducerId v4 {"transactional_id": "pay-1"}\n< {"producer_id": 9001, "producer_epoch": %d}\n'


def use(epoch: int, api: str = "EndTxn v1", **more: Any) -> str:
    asked = {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": epoch} | more
    return f"> {api} {json.dumps(asked)}\n< {{}}\n"


def test_an_epoch_that_nobody_gave() -> None:
    [finding] = findings(INIT % 0 + use(0) + 5 * use(1), "S074")
    assert finding.message == (
        "producer 9001 uses epoch 1, but InitProducerId gave it epoch 0 and nothing gave it 1: the client has raised "
        "the epoch itself"
    )
    assert finding.path == "producer_epoch"


@pytest.mark.parametrize(
    "story",
    [
        INIT % 0 + INIT % 1 + use(1),
        INIT % 3 + use(2),  # an older instance: the coordinator fences it
        use(1),  # where the capture begins, nobody knows
        INIT % 0 + "lose < 100\n" + use(1),
        INIT % 0 + "+1s\n" + use(1).replace("9001", "9002"),
    ],
)
def test_epochs_that_may_have_been_given(story: str) -> None:
    assert not findings(story, "S074")


def test_epochs_of_two_clients_are_apart() -> None:
    other = use(1).replace(">", "2> as other").replace("<", "2<")
    assert not findings(INIT % 0 + other, "S074")


@pytest.mark.parametrize(
    "story",
    [
        INIT % 0 + use(0, committed=False),
        INIT % 0 + use(0, "EndTxn v5", committed=True),  # KIP-890: brokers add partitions
        INIT % 0 + "lose > 100\n" + use(0, committed=True),
        use(0, committed=True),
    ],
)
def test_the_end_of_a_transaction_that_may_have_something(story: str) -> None:
    assert not findings(story, "S073")


def test_the_second_transaction_may_be_the_empty_one() -> None:
    filled = use(0, "AddOffsetsToTxn v1", group_id="g") + use(0, committed=True)
    assert not findings(INIT % 0 + 2 * filled, "S073")
    [finding] = findings(INIT % 0 + filled + use(0, committed=True), "S073")
    assert "transactional id 'pay-1' to which it has added no partition and no offsets" in finding.message


def joined(user_data: str, member: str = "m") -> str:
    subscription = {"type": "ConsumerProtocolSubscription", "version": 0, "data": {"topics": ["t"],
                    "user_data": user_data}}  # fmt: skip
    asked = {"group_id": "views", "session_timeout_ms": 45000, "rebalance_timeout_ms": 60000, "member_id": member,
             "protocol_type": "consumer", "protocols": [{"name": "sticky", "metadata": subscription}]}  # fmt: skip
    answer = {"generation_id": 6, "protocol_name": "sticky", "leader": "m", "member_id": "m"}
    return f"> JoinGroup v5 {json.dumps(asked)}\n< {json.dumps(answer)}\n"


def sticky(generation: int, partitions: int = 1) -> str:
    """StickyAssignorUserData: that many partitions of topic t, and the generation."""
    topics = b"\0\0\0\0" if not partitions else b"\0\0\0\1\0\1t" + partitions.to_bytes(4, "big") + bytes(4 * partitions)
    return (topics + generation.to_bytes(4, "big", signed=True)).hex(" ")


SYNCED = (
    '> SyncGroup v3 {"group_id": "views", "generation_id": 6, "member_id": "m", "assignments": [{"member_id": "m",'
    ' "assignment": "00 00 00 00 00 00 00 00 00 00"}]}\n< {"assignment": "00 00 00 00 00 00 00 00 00 00"}\n'
)


@pytest.mark.parametrize("generation", [-1, 5])
def test_user_data_with_a_generation_from_the_past(generation: int) -> None:
    [finding] = findings(joined("") + SYNCED + joined(sticky(generation)), "S075")
    assert finding.message == (
        f"StickyAssignorUserData of member 'm' in group 'views' has generation {generation} with partitions that it "
        "got in generation 6, its previous generation"
    )


@pytest.mark.parametrize(
    "story",
    [
        joined("") + SYNCED + joined(sticky(6)),
        joined("") + SYNCED + joined(sticky(-1, partitions=0)),  # it claims nothing
        joined("") + joined(sticky(-1)),  # it has not got an assignment
        joined("") + SYNCED + joined(sticky(-1), member="n"),
        joined("") + SYNCED + joined("00 01 02"),  # another assignor's
    ],
)
def test_user_data_that_fits(story: str) -> None:
    assert not findings(story, "S075")


def assigned(generation: int, *members: str, leader_only: bool = False) -> str:
    """All members join and get their assignment in a generation; each has its own connection, the first leads."""
    rows = [{"member_id": member} for member in members]
    asked = '{"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000, "member_id": "%s"}'
    visible = members[:1] if leader_only else members
    lines = [f"{number}> JoinGroup v5 {asked % member}\n" for number, member in enumerate(visible, 1)]
    for number, member in enumerate(visible, 1):
        answer = {"generation_id": generation, "leader": members[0], "member_id": member, "members": rows}
        lines.append(f"{number}< {json.dumps(answer)}\n")
        rows = []
    for number, member in enumerate(visible, 1):
        sync = {"group_id": "g", "generation_id": generation, "member_id": member}
        lines.append(f"{number}> SyncGroup v3 {json.dumps(sync)}\n{number}< {{}}\n")
    return "".join(lines) + "+1s\n"


def beat(generation: int, error: int, *, api: str = "Heartbeat v3", by: str = "1", member: str = "a") -> str:
    name = "generation_id_or_member_epoch" if "Commit" in api else "generation_id"
    asked: dict[str, Any] = {"group_id": "g", name: generation, "member_id": member}
    answer: dict[str, Any] = {"error_code": error}
    if "Commit" in api:
        asked["topics"] = [{"name": "t", "partitions": [{"committed_offset": 1}]}]
        answer = {"topics": [{"name": "t", "partitions": [{"error_code": error}]}]}
    return f"{by}> {api} {json.dumps(asked)}\n{by}< {json.dumps(answer)}\n"


def test_a_rebalance_that_nobody_asked_for_is_the_coordinators() -> None:
    story = "".join(assigned(n, "a", "b") + beat(n, 27) for n in range(1, 30))
    first, *_ = findings(story, "S078")
    assert "with REBALANCE_IN_PROGRESS for the 3rd time" in first.message
    assert "leads to the same 2 members" in first.message
    assert not findings(story, "S012")
    # as soon as a member asks for it, leaves, is somebody else or is not visible, somebody may be the reason
    asks = assigned(0, "b").splitlines()[0].removeprefix("1") + "\n"
    asked = "".join(assigned(n, "a", "b") + f"{n + 2}{asks}" + beat(n, 27) for n in range(1, 9))
    assert not findings(asked, "S078")
    assert not findings("".join(assigned(n, "a", f"b{n}") + beat(n, 27) for n in range(1, 9)), "S078")
    assert not findings("".join(assigned(n, "a", "b", leader_only=True) + beat(n, 27) for n in range(1, 9)), "S078")
    assert not findings("".join(assigned(n, "a", "b") + beat(n, 0) + beat(n, 27) for n in range(1, 9)), "S078")
    leaving = '2> LeaveGroup v1 {"group_id": "g", "member_id": "b"}\n2< {}\n'
    assert not findings("".join(assigned(n, "a", "b") + leaving + beat(n, 27) for n in range(1, 9)), "S078")
    seldom = "".join(assigned(n, "a", "b") + "+61s\n" + beat(n, 27) for n in range(1, 9))
    assert not findings(seldom, "S078")


@pytest.mark.parametrize("api", ["Heartbeat v3", "OffsetCommit v7"])
def test_the_newest_generation_is_not_illegal(api: str) -> None:
    story = "".join(assigned(n, "a") + beat(n, 22, api=api) for n in (1, 2))
    [finding] = findings(story, "S078")
    assert "2 times in a row" in finding.message
    assert "for generation 2, which it gave member 'a' 1 s before" in finding.message
    assert not findings(story, "S020")
    accepted = assigned(1, "a") + beat(1, 22, api=api) + beat(1, 0, api=api) + beat(1, 22, api=api)
    assert not findings(accepted, "S078")
    moved = "".join(assigned(n, "a") + assigned(n + 1, "b", leader_only=True) + beat(n, 22, api=api) for n in (1, 3))
    assert not findings(moved, "S078")
    assert findings(moved, "S020")


def test_a_member_whose_session_lasts_is_not_unknown() -> None:
    story = assigned(1, "a") + beat(1, 25) + assigned(2, "b", leader_only=True) + beat(2, 25, member="b")
    [finding] = findings(story, "S078")
    assert "it accepted a request of member 'b' 1 s before, which has not left" in finding.message
    for between in "+11s\n", '1> LeaveGroup v1 {"group_id": "g", "member_id": "a"}\n1< {}\n':
        assert not findings(2 * (assigned(1, "a") + between + beat(1, 25)), "S078")
    assert not findings(2 * (assigned(1, "a") + beat(1, 27) + "+2s\n" + beat(1, 25)), "S078")


def fetched(fields: str, *, level: int = 0) -> str:
    asked = f'{{"isolation_level": {level}, "topics": [{{"topic": "t", "partitions": [{{"fetch_offset": 40}}]}}]}}'
    return (
        f"> Fetch v11 {asked}\n"
        f'< {{"responses": [{{"topic": "t", "partitions": [{{"high_watermark": 45, "last_stable_offset": 45, {fields}, '
        '"records": [{"base_offset": 40, "last_offset_delta": 1, "records": [{}, {"offset": 41}]}]}]}]}\n'
    )


def test_records_before_the_log_start_offset_are_deleted_ones() -> None:
    [finding] = findings(fetched('"log_start_offset": 45'), "S080")
    assert finding.message == (
        "log_start_offset of t[0] is 45, its high watermark, in a response with records from 40 on, "
        "which would be deleted"
    )
    assert finding.path == "responses[0].partitions[0].log_start_offset"
    assert "its high watermark" not in findings(fetched('"log_start_offset": 42'), "S080")[0].message
    assert not findings(fetched('"log_start_offset": 41'), "S080")


def test_aborted_transactions_are_for_those_who_asked() -> None:
    aborted = '"aborted_transactions": [{"producer_id": 5, "first_offset": 40}]'
    [finding] = findings(fetched(aborted), "S081")
    assert "lists 1 aborted transaction although" in finding.message
    assert "producer 5 from 40 on" in finding.message
    assert not findings(fetched(aborted, level=1), "S081")


@pytest.mark.parametrize(
    ("after", "is_right"),
    [
        ('{"topic_name": "t", "partition_index": 2}', False),
        ('{"topic_name": "s", "partition_index": 9}', False),
        ('{"topic_name": "t", "partition_index": 3}', True),
        ('{"topic_name": "u", "partition_index": 0}', True),
        ("null", True),
    ],
)
def test_pages_lead_on(after: str, is_right: bool) -> None:
    asked = '{"topics": [{"name": "t"}], "cursor": {"topic_name": "t", "partition_index": 2}}'
    story = f'> DescribeTopicPartitions v0 {asked}\n< {{"topics": [], "next_cursor": {after}}}\n'
    assert bool(findings(story, "S082")) is not is_right
    assert not findings(story.replace('"cursor": {"topic_name": "t", "partition_index": 2}', '"cursor": null'), "S082")


def test_one_count_may_be_missing() -> None:
    answer = '{"topics": [{"name": "t", "num_partitions": 3, "replication_factor": -1}]}'
    [finding] = findings(f'> CreateTopics v5 {{"topics": [{{"name": "t"}}]}}\n< {answer}\n', "S083")
    assert finding.message == "topic t was created, but replication_factor of the response is -1"


def committed_only(stable: int, *, records: str = '""', offset: int = 6) -> str:
    row = f'{{"high_watermark": 9, "last_stable_offset": {stable}, "records": {records}}}'
    asked = f'{{"isolation_level": 1, "topics": [{{"topic": "t", "partitions": [{{"fetch_offset": {offset}}}]}}]}}'
    return f'> Fetch v11 {asked}\n< {{"responses": [{{"topic": "t", "partitions": [{row}]}}]}}\n'


OPEN_TRANSACTION = (
    '[{"base_offset": 4, "records": [{}]}, {"base_offset": 5, "is_transactional": true, "records": [{}]}]'
)


@pytest.mark.parametrize(("then", "is_right"), [(5, False), (4, False), (6, True), (-1, True)])
def test_records_above_the_last_stable_offset_are_wrong_if_that_has_not_moved(then: int, is_right: bool) -> None:
    early = committed_only(5, records=OPEN_TRANSACTION, offset=4)
    found = findings(early + committed_only(then), "S085")
    assert [finding.path for finding in found] == (
        [] if is_right else ["responses[0].partitions[0].last_stable_offset"]
    )
    assert not findings(committed_only(6, records=OPEN_TRANSACTION, offset=4) + committed_only(6), "S085")
    assert not findings(early + "+61s\n" + committed_only(then), "S085")
    assert not findings(early + committed_only(then).replace("> ", "2> ").replace("< ", "2< "), "S085")


UP_TO_45 = fetched('"log_start_offset": 0')


def listed(timestamp: int, offset: int, *, level: int = 0) -> str:
    asked = f'{{"isolation_level": {level}, "topics": [{{"name": "t", "partitions": [{{"timestamp": {timestamp}}}]}}]}}'
    return f'> ListOffsets v4 {asked}\n< {{"topics": [{{"name": "t", "partitions": [{{"offset": {offset}}}]}}]}}\n'


def test_what_is_shown_while_the_request_is_in_flight_may_be_later() -> None:
    asked, answer, _ = listed(-1, 0).split("\n")
    fetch = UP_TO_45.replace("> ", "2> ").replace("< ", "2< ")
    assert not findings(f"{listed(-1, 0)}{asked}\n{fetch}{answer}\n", "S089")


@pytest.mark.parametrize(
    ("before", "pause", "latest", "said"),
    [
        (
            listed(-1, 0) + UP_TO_45,
            "+1s\n",
            0,
            "has returned 45 as the high watermark of a fetch",
        ),
        (listed(-1, 0) + UP_TO_45, "+1s\n", 45, None),
        (listed(-1, 0) + UP_TO_45, "+11s\n", 0, None),
        (UP_TO_45, "+1s\n", 0, None),  # not observed before somebody asks
        (listed(-2, 9), "+1s\n", 3, "has returned 9 as the earliest offset"),
        (listed(-2, 9), "+1s\n", 9, None),
        (listed(1_767_225_600_000, 9), "+1s\n", 3, None),
    ],
)
def test_the_latest_offset_is_not_below_what_was_shown(before: str, pause: str, latest: int, said: str | None) -> None:
    found = findings(before + pause + listed(-1, latest), "S089")
    assert [said in finding.message for finding in found if said] == [True] * (said is not None)
    assert len(found) == (said is not None)
    assert not findings(before + pause + listed(-1, latest, level=1), "S089")
    other = listed(-1, latest).replace("> ", "2> ").replace("< ", "2< ")
    assert not findings("open 2 server=10.9.9.9:9092\n" + before + pause + other, "S089")


def test_a_new_epoch_sends_a_produce_to_few_rules() -> None:
    """Producers with transactions of version 2 have one for each transaction (KIP-890)."""
    produce = (
        '> Produce v7 {"transactional_id": "pay-1", "acks": -1, "topic_data": [{"name": "t", "partition_data": [{'
        '"records": [{"is_transactional": true, "producer_id": 9001, "producer_epoch": %d, "base_sequence": %d, '
        '"base_timestamp": 1700000000000, "max_timestamp": 1700000000000, "records": [{}]}]}]}]}\n'
    )
    teller = Teller()
    teller.tell(INIT % 0 + produce % (0, 0) + produce % (0, 1))
    state = teller.inspector._connections[1].connection_state
    ordinary = state.flags
    teller.tell(produce % (1, 0))
    assert state.flags == ordinary | FrameFlags.RAISED
