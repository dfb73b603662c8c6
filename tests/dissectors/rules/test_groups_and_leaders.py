"""Groups that do not settle, and partitions whose leader cannot be found: S006 to S008, S011, S012, S014 to S018."""

import pytest

from tests.kproxy.stories import findings

JOIN = '{"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000, "member_id": "%s"}'


def rule_messages(code: str, *parts: str) -> list[str]:
    """Return the messages of one rule about a story, whose lines may be indented."""
    lines = [line.strip() for part in parts for line in part.splitlines()]
    return [finding.message for finding in findings("\n".join(lines), code)]


def join_group(generation: int, member: str, *, connection: int = 1, sent_member_id: str = "", version: int = 3) -> str:
    """Return the exchange in which a member is let into its group."""
    return f"""
        {connection}> JoinGroup v{version} {JOIN % sent_member_id}
        {connection}< {{"generation_id": {generation}, "member_id": "{member}"}}
        +1s
    """


def test_generations_are_counted_within_a_minute_of_one_group() -> None:
    assert rule_messages("S012", join_group(1, "m"), join_group(20, "m", sent_member_id="m")) == []
    assert rule_messages("S012", join_group(1, "m"), "+70s", join_group(30, "m", sent_member_id="m")) == []
    assert rule_messages("S012", join_group(90, "m"), join_group(1, "n"), join_group(20, "n", sent_member_id="n")) == []
    assert len(rule_messages("S012", join_group(1, "m"), join_group(21, "m", sent_member_id="m"))) == 1


def test_rebalance_storm_is_reported_once() -> None:
    assert (
        len(rule_messages("S012", *(join_group(25 * number, "m", sent_member_id="m") for number in range(1, 6)))) == 1
    )


MEMBER_ID_REQUIRED = f'> JoinGroup v9 {JOIN % ""}\n< {{"error_code": 79, "member_id": "m-1"}}\n'


@pytest.mark.parametrize(
    "use",
    [
        f"> JoinGroup v9 {JOIN % 'm-1'}",
        f"2> JoinGroup v9 {JOIN % 'm-1'}",
        '> LeaveGroup v5 {"group_id": "g", "members": [{"member_id": "m-1"}]}',
        '> LeaveGroup v2 {"group_id": "g", "member_id": "m-1"}',
    ],
)
def test_used_member_id_is_not_abandoned(use: str) -> None:
    assert rule_messages("S014", MEMBER_ID_REQUIRED, use, "+60s") == []
    assert len(rule_messages("S014", MEMBER_ID_REQUIRED, "+60s")) == 1


def test_member_id_is_abandoned_even_if_the_server_closed_the_connection() -> None:
    assert len(rule_messages("S014", MEMBER_ID_REQUIRED, "close by=server how=reset", "+60s")) == 1


def test_distinct_members_with_the_same_client_id_are_not_reported() -> None:
    joins = "".join(
        f"open {number} client=10.0.0.9:5000{number}\n" + join_group(number, f"m-{number}", connection=number)
        for number in range(1, 8)
    )
    assert rule_messages("S016", joins) == []
    assert rule_messages("S017", joins) == []


def test_member_ids_that_change_with_each_connection_are_counted() -> None:
    story = "".join(join_group(number, f"m-{number}") + "close by=server how=reset\n" for number in range(1, 5))
    assert len(rule_messages("S016", story)) == 1
    assert rule_messages("S016", story.replace("+1s", "+40s")) == []  # each session is over by then


def test_new_member_that_joins_with_its_assigned_id_keeps_it() -> None:
    first_join = f'> JoinGroup v5 {JOIN % ""}\n< {{"error_code": 79, "member_id": "m-1"}}\n'
    assert rule_messages("S016", 6 * (first_join + join_group(1, "m-1", sent_member_id="m-1", version=5))) == []


def test_static_member_may_get_a_new_id_after_a_restart() -> None:
    join_body = JOIN[:-1] % "" + ', "group_instance_id": "i"}'
    restart = f'> JoinGroup v5 {join_body}\n< {{"generation_id": 1, "member_id": "m-%s"}}\nclose by=client how=fin\n'
    assert rule_messages("S016", *(restart % number for number in range(9))) == []


def test_id_of_a_member_that_left_may_be_reused() -> None:
    leave = '> LeaveGroup v3 {"group_id": "g", "members": [{"member_id": "m"}]}\n< {}'
    assert len(rule_messages("S017", join_group(1, "m"), join_group(2, "m", connection=2))) == 1
    assert rule_messages("S017", join_group(1, "m"), leave, join_group(2, "m", connection=2)) == []


def leader_sync(assignment: str, *, generation: int = 1) -> str:
    """Return a request in which the leader assigns something to m-2."""
    return (
        f'> SyncGroup v5 {{"group_id": "g", "generation_id": {generation}, "member_id": "m-1", '
        f'"assignments": [{{"member_id": "m-2", "assignment": "{assignment}"}}]}}\n'
    )


def member_sync(assignment: str, *, generation: int = 1, member: str = "m-2") -> str:
    """Return a member's SyncGroup and its response."""
    return (
        f'2> SyncGroup v5 {{"group_id": "g", "generation_id": {generation}, "member_id": "{member}"}}\n'
        f'2< {{"assignment": "{assignment}"}}\n'
    )


def test_assignment_is_compared_with_the_leaders_in_its_generation() -> None:
    assert rule_messages("S018", leader_sync("0a"), member_sync("0a")) == []
    assert rule_messages("S018", leader_sync("0a"), leader_sync("0b"), member_sync("0a"), member_sync("0b")) == []
    assert rule_messages("S018", leader_sync("0a"), member_sync("", generation=2), member_sync("", member="m-3")) == []
    [message] = rule_messages("S018", leader_sync("0a"), member_sync(""))
    assert "got nothing" in message
    [message] = rule_messages(
        "S018", leader_sync("0a"), leader_sync("0b", generation=2), member_sync("0a", generation=2)
    )
    assert "other bytes" in message


def static_join(member: str, *, generation: int = 1) -> str:
    return (
        '3> JoinGroup v5 {"group_id": "g", "member_id": "", "group_instance_id": "b"}\n'
        f'3< {{"generation_id": {generation}, "member_id": "{member}", "leader": "m-1"}}\n'
    )


def test_static_member_whose_id_was_replaced_gets_what_the_leader_assigned_to_its_old_id() -> None:
    replaced = static_join("m-2") + static_join("m-3")
    [message] = rule_messages("S018", replaced, leader_sync("0a"), member_sync("", member="m-3"))
    assert message == (
        "static member 'm-3' of group 'g' got nothing in generation 1: the leader assigned partitions to 'm-2', the id"
        " that the coordinator had given it before in this generation"
    )
    assert rule_messages("S018", replaced, leader_sync("0a"), member_sync("0a", member="m-3")) == []
    assert rule_messages("S018", replaced, leader_sync(""), member_sync("", member="m-3")) == []
    rejoined = static_join("m-2") + static_join("m-3", generation=2)
    assert rule_messages("S018", rejoined, leader_sync("0a"), member_sync("", member="m-3", generation=2)) == []


@pytest.mark.parametrize(
    ("api", "response"),
    [
        ("Heartbeat v4", '{"error_code": 25}'),
        ("SyncGroup v5", '{"error_code": 25}'),
        ("JoinGroup v9", '{"error_code": 25}'),
        ("ConsumerGroupHeartbeat v0", '{"error_code": 25}'),
        ("OffsetCommit v9", '{"topics": [{"name": "t", "partitions": [{"error_code": 25}]}]}'),
    ],
)
def test_refusals_of_a_member_count_until_it_is_accepted(api: str, response: str) -> None:
    refused = f'> {api} {{"group_id": "g", "member_id": "m"}}\n< {response}\n+1s\n'
    accepted = '> Heartbeat v4 {"group_id": "g", "member_id": "m"}\n< {}\n'
    assert rule_messages("S015", 4 * refused) == []
    assert len(rule_messages("S015", 6 * refused)) == 1
    assert rule_messages("S015", 4 * refused, accepted, 4 * refused) == []


@pytest.mark.parametrize(
    ("epoch", "topics", "expected_text", "expected_hint"),
    [
        (5, "null", "keeps sending member_epoch 5", "rejoin with member_epoch 0"),
        (-1, "null", "keeps sending member_epoch -1, which leaves the group", "joins with member_epoch 0"),
        (-1, '["t"]', "which leaves the group, and its other fields are those of a join", "joins with member_epoch 0"),
    ],
)
def test_refused_member_with_an_epoch_must_rejoin_with_epoch_0(
    epoch: int, topics: str, expected_text: str, expected_hint: str
) -> None:
    heartbeat = f'{{"group_id": "g", "member_id": "m", "member_epoch": {epoch}, "subscribed_topic_names": {topics}}}'
    [finding] = findings(6 * f'> ConsumerGroupHeartbeat v0 {heartbeat}\n< {{"error_code": 25}}\n+1s\n', "S015")
    assert expected_text in finding.message
    assert expected_hint in (finding.hint or "")
    assert "empty member_id" not in (finding.hint or "")


FETCH = '> Fetch v4 {"topics": [{"topic": "t", "partitions": [{}]}]}\n'
DENIED = FETCH + '< {"responses": [{"topic": "t", "partitions": [{"error_code": 6}]}]}\n+1s\n'


def metadata(leader: int) -> str:
    """Return a Metadata response in which t is led by broker 1, which the client is connected to, or by broker 2."""
    return f"""
        > Metadata v8 {{"topics": [{{"name": "t"}}]}}
        < {{"brokers": [{{"node_id": 1, "host": "10.0.0.1", "port": 9092}}, {{"node_id": 2, "host": "10.0.0.2"}}],
            "topics": [{{"name": "t", "partitions": [{{"leader_id": {leader}}}]}}]}}
    """.replace("\n            ", " ")


def test_client_sent_back_to_the_same_leader_is_not_blamed() -> None:
    assert rule_messages("S007", 3 * DENIED, metadata(1), 4 * DENIED) == []
    assert len(rule_messages("S007", 5 * DENIED)) == 1
    stale = 6 * (metadata(1) + DENIED) + metadata(1)
    [message] = rule_messages("S008", stale)
    assert "the leader of t[0], which answered Fetch with NOT_LEADER_OR_FOLLOWER" in message
    assert rule_messages("S007", stale) == []


def test_generations_without_an_assignment_are_not_a_rebalance_storm() -> None:
    def sync_response(code: int) -> str:
        return f'> SyncGroup v3 {{"group_id": "g", "member_id": "m"}}\n< {{"error_code": {code}}}\n'

    assert rule_messages("S012", join_group(1, "m"), sync_response(27), join_group(21, "m", sent_member_id="m")) == []
    assert (
        len(
            rule_messages(
                "S012",
                join_group(1, "m"),
                sync_response(27),
                sync_response(0),
                sync_response(27),
                join_group(21, "m", sent_member_id="m"),
            )
        )
        == 1
    )
    assert (
        len(
            rule_messages(
                "S012",
                join_group(1, "m"),
                sync_response(27),
                join_group(21, "m", sent_member_id="m"),
                sync_response(0),
                join_group(41, "m", sent_member_id="m"),
            )
        )
        == 1
    )


def test_blame_depends_on_the_named_leader() -> None:
    def not_leader(leader: int) -> str:
        named_leader = f'"current_leader": {{"leader_id": {leader}}}'
        return (
            '> Produce v11 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{}]}]}\n'
            f'< {{"responses": [{{"name": "t", "partition_responses": [{{"error_code": 6, {named_leader}}}]}}]}}\n+1s\n'
        )

    assert rule_messages("S007", metadata(1), 5 * not_leader(1)) == []
    [contradiction] = rule_messages("S069", metadata(1), 5 * not_leader(1))
    assert contradiction.endswith("contradicts itself")
    [other_leader] = rule_messages("S007", metadata(1), 5 * not_leader(2))
    assert other_leader.endswith("but the client did not look up the new leader 2, which each response names")
    [unknown_leader] = rule_messages("S007", metadata(1), 5 * not_leader(-1))
    assert unknown_leader.endswith("did not look up the new leader")
    [unknown_broker] = rule_messages("S007", 5 * not_leader(1))  # no Metadata that names broker 1 was captured
    assert unknown_broker.endswith("did not look up the new leader 1, which each response names")


def test_moved_leader_resets_the_count() -> None:
    assert rule_messages("S008", 3 * (metadata(1) + DENIED), metadata(2), 3 * (metadata(1) + DENIED)) == []


def test_requests_already_in_flight_are_not_counted() -> None:
    pipelined = 8 * FETCH + 8 * '< {"responses": [{"topic": "t", "partitions": [{"error_code": 6}]}]}\n+1s\n'
    assert rule_messages("S007", pipelined) == []


def test_topic_without_a_leader_is_named() -> None:
    leaderless = '> Metadata v8 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 5}]}\n+16s\n'
    [message] = rule_messages("S006", 4 * leaderless)
    assert message.startswith("t has had no leader for 32 s")
    assert rule_messages("S006", 4 * leaderless.replace("16s", "2s")) == []
    from_two_brokers = "open 1 server=10.0.0.1:9092\nopen 2 server=10.0.0.2:9092\n" + 4 * (
        leaderless + leaderless.replace("> ", "2> ").replace("< ", "2< ")
    )
    assert len(rule_messages("S006", from_two_brokers)) == 1


def test_topic_that_appears_much_later_is_not_auto_created() -> None:
    missing = '> Metadata v8 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 3}]}\n'
    assert len(rule_messages("S011", missing, metadata(1))) == 1
    assert rule_messages("S011", missing, "+20s", metadata(1)) == []
