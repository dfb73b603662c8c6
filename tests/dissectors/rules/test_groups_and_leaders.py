"""Groups that do not settle and partitions whose leader is not to be found: S006 to S008, S011, S012, S014 to S018."""

import pytest

from tests.kproxy.stories import findings

JOIN = '{"group_id": "g", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000, "member_id": "%s"}'


def seen(code: str, *parts: str) -> list[str]:
    """What one rule says of a story, whose lines may be indented."""
    lines = [line.strip() for part in parts for line in part.splitlines()]
    return [finding.message for finding in findings("\n".join(lines), code)]


def join(generation: int, member: str, *, on: int = 1, asked: str = "", version: int = 3) -> str:
    """A member is let into its group."""
    return f"""
        {on}> JoinGroup v{version} {JOIN % asked}
        {on}< {{"generation_id": {generation}, "member_id": "{member}"}}
        +1s
    """


def test_generations_are_counted_within_a_minute_and_from_the_beginning_of_a_group() -> None:
    assert seen("S012", join(1, "m"), join(20, "m", asked="m")) == []
    assert seen("S012", join(1, "m"), "+70s", join(30, "m", asked="m")) == []
    assert seen("S012", join(90, "m"), join(1, "n"), join(20, "n", asked="n")) == []
    assert len(seen("S012", join(1, "m"), join(21, "m", asked="m"))) == 1


def test_a_storm_is_told_once() -> None:
    assert len(seen("S012", *(join(25 * number, "m", asked="m") for number in range(1, 6)))) == 1


REQUIRED = f'> JoinGroup v9 {JOIN % ""}\n< {{"error_code": 79, "member_id": "m-1"}}\n'


@pytest.mark.parametrize(
    "used",
    [
        f"> JoinGroup v9 {JOIN % 'm-1'}",
        f"2> JoinGroup v9 {JOIN % 'm-1'}",
        '> LeaveGroup v5 {"group_id": "g", "members": [{"member_id": "m-1"}]}',
        '> LeaveGroup v2 {"group_id": "g", "member_id": "m-1"}',
    ],
)
def test_an_id_that_is_used_is_not_abandoned(used: str) -> None:
    assert seen("S014", REQUIRED, used, "+60s") == []
    assert len(seen("S014", REQUIRED, "+60s")) == 1


def test_an_id_is_abandoned_also_by_a_client_whose_connection_the_server_closed() -> None:
    assert len(seen("S014", REQUIRED, "close by=server how=reset", "+60s")) == 1


def test_several_consumers_of_one_client_id_have_several_member_ids() -> None:
    started = "".join(
        f"open {number} client=10.0.0.9:5000{number}\n" + join(number, f"m-{number}", on=number)
        for number in range(1, 8)
    )
    assert seen("S016", started) == []
    assert seen("S017", started) == []


def test_ids_that_change_from_connection_to_connection_count_too() -> None:
    lost = "".join(join(number, f"m-{number}") + "close by=server how=reset\n" for number in range(1, 5))
    assert len(seen("S016", lost)) == 1
    assert seen("S016", lost.replace("+1s", "+40s")) == []  # each session is over by then


def test_a_new_member_that_joins_with_the_id_that_it_was_given_keeps_it() -> None:
    first = f'> JoinGroup v5 {JOIN % ""}\n< {{"error_code": 79, "member_id": "m-1"}}\n'
    assert seen("S016", 6 * (first + join(1, "m-1", asked="m-1", version=5))) == []


def test_a_static_member_gets_a_new_id_after_a_restart() -> None:
    static = JOIN[:-1] % "" + ', "group_instance_id": "i"}'
    again = f'> JoinGroup v5 {static}\n< {{"generation_id": 1, "member_id": "m-%s"}}\nclose by=client how=fin\n'
    assert seen("S016", *(again % number for number in range(9))) == []


def test_a_member_that_has_left_may_have_its_id_given_to_another() -> None:
    left = '> LeaveGroup v3 {"group_id": "g", "members": [{"member_id": "m"}]}\n< {}'
    assert len(seen("S017", join(1, "m"), join(2, "m", on=2))) == 1
    assert seen("S017", join(1, "m"), left, join(2, "m", on=2)) == []


def sync(assignment: str, *, generation: int = 1) -> str:
    """The leader assigns something to m-2."""
    return (
        f'> SyncGroup v5 {{"group_id": "g", "generation_id": {generation}, "member_id": "m-1", '
        f'"assignments": [{{"member_id": "m-2", "assignment": "{assignment}"}}]}}\n'
    )


def got(assignment: str, *, generation: int = 1, member: str = "m-2") -> str:
    """What a member is answered."""
    return (
        f'2> SyncGroup v5 {{"group_id": "g", "generation_id": {generation}, "member_id": "{member}"}}\n'
        f'2< {{"assignment": "{assignment}"}}\n'
    )


def test_an_assignment_is_compared_with_what_the_leader_sent_in_that_generation() -> None:
    assert seen("S018", sync("0a"), got("0a")) == []
    assert seen("S018", sync("0a"), sync("0b"), got("0a"), got("0b")) == []
    assert seen("S018", sync("0a"), got("", generation=2), got("", member="m-3")) == []
    [message] = seen("S018", sync("0a"), got(""))
    assert "got nothing" in message
    [message] = seen("S018", sync("0a"), sync("0b", generation=2), got("0a", generation=2))
    assert "other bytes" in message


@pytest.mark.parametrize(
    ("api", "answer"),
    [
        ("Heartbeat v4", '{"error_code": 25}'),
        ("SyncGroup v5", '{"error_code": 25}'),
        ("JoinGroup v9", '{"error_code": 25}'),
        ("ConsumerGroupHeartbeat v0", '{"error_code": 25}'),
        ("OffsetCommit v9", '{"topics": [{"name": "t", "partitions": [{"error_code": 25}]}]}'),
    ],
)
def test_every_refusal_of_a_member_counts_until_it_is_accepted(api: str, answer: str) -> None:
    refused = f'> {api} {{"group_id": "g", "member_id": "m"}}\n< {answer}\n+1s\n'
    accepted = '> Heartbeat v4 {"group_id": "g", "member_id": "m"}\n< {}\n'
    assert seen("S015", 4 * refused) == []
    assert len(seen("S015", 6 * refused)) == 1
    assert seen("S015", 4 * refused, accepted, 4 * refused) == []


@pytest.mark.parametrize(
    ("epoch", "names", "keeps", "hint"),
    [
        (5, "null", "keeps sending member_epoch 5", "rejoin with member_epoch 0"),
        (-1, "null", "keeps sending member_epoch -1, which leaves the group", "joins with member_epoch 0"),
        (-1, '["t"]', "which leaves the group, and its other fields are those of a join", "joins with member_epoch 0"),
    ],
)
def test_a_member_with_epochs_rejoins_with_epoch_0(epoch: int, names: str, keeps: str, hint: str) -> None:
    beat = f'{{"group_id": "g", "member_id": "m", "member_epoch": {epoch}, "subscribed_topic_names": {names}}}'
    [finding] = findings(6 * f'> ConsumerGroupHeartbeat v0 {beat}\n< {{"error_code": 25}}\n+1s\n', "S015")
    assert keeps in finding.message
    assert hint in (finding.hint or "")
    assert "empty member_id" not in (finding.hint or "")


FETCH = '> Fetch v4 {"topics": [{"topic": "t", "partitions": [{}]}]}\n'
DENIED = FETCH + '< {"responses": [{"topic": "t", "partitions": [{"error_code": 6}]}]}\n+1s\n'


def metadata(leader: int) -> str:
    """Metadata of t, whose leader is 1 at the address dialled, or 2."""
    return f"""
        > Metadata v8 {{"topics": [{{"name": "t"}}]}}
        < {{"brokers": [{{"node_id": 1, "host": "10.0.0.1", "port": 9092}}, {{"node_id": 2, "host": "10.0.0.2"}}],
            "topics": [{{"name": "t", "partitions": [{{"leader_id": {leader}}}]}}]}}
    """.replace("\n            ", " ")


def test_a_client_that_asks_and_is_sent_back_is_not_the_one_to_blame() -> None:
    assert seen("S007", 3 * DENIED, metadata(1), 4 * DENIED) == []
    assert len(seen("S007", 5 * DENIED)) == 1
    stale = 6 * (metadata(1) + DENIED) + metadata(1)
    [both] = seen("S008", stale)
    assert "the leader of t[0], which answered Fetch with NOT_LEADER_OR_FOLLOWER" in both
    assert seen("S007", stale) == []


def test_generations_without_an_assignment_are_another_matter() -> None:
    def synced(code: int) -> str:
        return f'> SyncGroup v3 {{"group_id": "g", "member_id": "m"}}\n< {{"error_code": {code}}}\n'

    assert seen("S012", join(1, "m"), synced(27), join(21, "m", asked="m")) == []
    assert len(seen("S012", join(1, "m"), synced(27), synced(0), synced(27), join(21, "m", asked="m"))) == 1
    assert (
        len(seen("S012", join(1, "m"), synced(27), join(21, "m", asked="m"), synced(0), join(41, "m", asked="m"))) == 1
    )


def test_a_response_that_names_the_leader_says_who_is_to_blame() -> None:
    def denied(leader: int) -> str:
        named = f'"current_leader": {{"leader_id": {leader}}}'
        return (
            '> Produce v11 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [{}]}]}\n'
            f'< {{"responses": [{{"name": "t", "partition_responses": [{{"error_code": 6, {named}}}]}}]}}\n+1s\n'
        )

    assert seen("S007", metadata(1), 5 * denied(1)) == []
    [itself] = seen("S069", metadata(1), 5 * denied(1))
    assert itself.endswith("contradicts itself")
    [other] = seen("S007", metadata(1), 5 * denied(2))
    assert other.endswith("but the client did not look up the new leader 2, which each response names")
    [unknown] = seen("S007", metadata(1), 5 * denied(-1))
    assert unknown.endswith("did not look up the new leader")
    [unread] = seen("S007", 5 * denied(1))  # who broker 1 is has not been captured
    assert unread.endswith("did not look up the new leader 1, which each response names")


def test_a_leader_that_has_moved_ends_the_matter() -> None:
    assert seen("S008", 3 * (metadata(1) + DENIED), metadata(2), 3 * (metadata(1) + DENIED)) == []


def test_fetches_that_were_under_way_are_no_disregard() -> None:
    many = 8 * FETCH + 8 * '< {"responses": [{"topic": "t", "partitions": [{"error_code": 6}]}]}\n+1s\n'
    assert seen("S007", many) == []


def test_a_topic_without_a_leader_is_told_by_its_name() -> None:
    waiting = '> Metadata v8 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 5}]}\n+16s\n'
    [message] = seen("S006", 4 * waiting)
    assert message.startswith("t has had no leader for 32 s")
    assert seen("S006", 4 * waiting.replace("16s", "2s")) == []


def test_a_topic_that_appears_much_later_was_made_by_somebody_else() -> None:
    unknown = '> Metadata v8 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 3}]}\n'
    assert len(seen("S011", unknown, metadata(1))) == 1
    assert seen("S011", unknown, "+20s", metadata(1)) == []
