from __future__ import annotations

import pytest

from kproxy.broker.errors import Error, Refused
from tests.kproxy.broker.groups.classic_group import RANGE, Classic

OTHER = {"roundrobin": RANGE["range"]}


def test_a_member_joins_syncs_and_is_stable() -> None:
    classic = Classic()
    joined = classic.join()
    assert joined.member_id.startswith("client-")
    assert joined.body["leader"] == joined.member_id
    assert joined.body["generation_id"] == 1
    assert joined.body["protocol_name"] == "range"
    assert [member["metadata"] for member in joined.body["members"]] == [RANGE["range"]]
    assert classic.group.state == "CompletingRebalance"
    synced = classic.sync(joined.member_id, 1, {joined.member_id: b"all"}, protocol=("consumer", "range"))
    assert synced.body["assignment"] == b"all"
    assert classic.group.state == "Stable"
    assert classic.heartbeat(joined.member_id, 1) is Error.NONE


def test_a_new_member_is_told_its_id_first() -> None:
    classic = Classic()
    told = classic.join(learns_id=True)
    assert told.error is Error.MEMBER_ID_REQUIRED
    assert classic.group.state == "Empty"
    assert classic.join(told.member_id).body["generation_id"] == 1


def test_who_was_told_an_id_and_does_not_join_is_forgotten() -> None:
    classic = Classic()
    told = classic.join(learns_id=True)
    classic.clock.go_on(10_001)
    assert classic.join(told.member_id).error is Error.UNKNOWN_MEMBER_ID


def test_a_second_member_begins_a_round_that_the_first_joins() -> None:
    classic = Classic()
    [first] = classic.stable(None)
    second = classic.join()
    assert second.waits
    assert classic.group.state == "PreparingRebalance"
    assert classic.heartbeat(first, 1) is Error.REBALANCE_IN_PROGRESS
    again = classic.join(first)
    assert again.body["generation_id"] == second.body["generation_id"] == 2
    assert {member["member_id"] for member in again.body["members"]} == {first, second.member_id}
    assert second.body["members"] == []
    waiting = classic.sync(second.member_id, 2)
    assert waiting.waits
    classic.sync(first, 2, {second.member_id: b"half"})
    assert waiting.body["assignment"] == b"half"


def test_a_member_that_does_not_join_again_in_time_is_out() -> None:
    classic = Classic()
    [first] = classic.stable(None)
    second = classic.join()
    for _ in range(9):
        classic.clock.go_on(3_500)
        classic.heartbeat(first, 1)
    assert second.body["leader"] == second.member_id
    assert classic.heartbeat(first, 1) is Error.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out_after_its_session_timeout() -> None:
    classic = Classic()
    first, second = classic.stable(None, None)
    for _ in range(3):
        classic.clock.go_on(4_000)
        classic.heartbeat(first, 2)
    assert classic.heartbeat(first, 2) is Error.REBALANCE_IN_PROGRESS
    assert classic.heartbeat(second, 2) is Error.UNKNOWN_MEMBER_ID
    assert [member["member_id"] for member in classic.join(first).body["members"]] == [first]


def test_an_empty_group_waits_for_more_as_long_as_some_come() -> None:
    classic = Classic(group_initial_rebalance_delay_ms="3000")
    first = classic.join()
    classic.clock.go_on(2_000)
    second = classic.join()
    classic.clock.go_on(2_000)
    assert first.waits
    classic.clock.go_on(2_000)
    assert first.body["generation_id"] == second.body["generation_id"] == 1


def test_whoever_does_not_sync_is_out() -> None:
    classic = Classic()
    first = classic.join()
    second = classic.join()
    classic.join(first.member_id)
    classic.sync(first.member_id, 2)
    for _ in range(8):
        classic.clock.go_on(4_000)
        classic.heartbeat(first.member_id, 2)
        classic.heartbeat(second.member_id, 2)
    assert classic.heartbeat(second.member_id, 2) is Error.UNKNOWN_MEMBER_ID


def test_a_round_ends_the_sync_of_the_last() -> None:
    classic = Classic()
    first, second = classic.stable(None, None)
    again = [classic.join(each) for each in (first, second)]
    assert again[0].body["generation_id"] == 3
    syncing = classic.sync(second, 3)
    classic.join()
    assert syncing.error is Error.REBALANCE_IN_PROGRESS
    assert classic.sync(second, 3).error is Error.REBALANCE_IN_PROGRESS


def test_the_last_member_leaves_an_empty_group_of_the_next_generation() -> None:
    classic = Classic()
    [member] = classic.stable(None)
    assert classic.group.leave([("nobody", None), (member, None)]) == [Error.UNKNOWN_MEMBER_ID, Error.NONE]
    assert classic.group.state == "Empty"
    assert classic.group.generation == 2
    assert classic.join(member).error is Error.UNKNOWN_MEMBER_ID


def test_protocols_that_not_all_have_are_refused() -> None:
    classic = Classic()
    assert classic.join(protocols={}).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert classic.join(protocol_type="").error is Error.INCONSISTENT_GROUP_PROTOCOL
    classic.stable(None)
    assert classic.join(protocols=OTHER).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert classic.join(protocol_type="connect").error is Error.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_that_most_like_best_of_those_that_all_have_is_chosen() -> None:
    classic = Classic(group_initial_rebalance_delay_ms="100")
    both, turned = {**RANGE, **OTHER}, {**OTHER, **RANGE}
    joined = [classic.join(protocols=each) for each in (both, turned, turned)]
    classic.clock.go_on(1_000)
    assert {each.body["protocol_name"] for each in joined} == {"roundrobin"}


def test_a_sync_names_its_generation_and_protocol() -> None:
    classic = Classic()
    member = classic.join().member_id
    assert classic.sync("nobody", 1).error is Error.UNKNOWN_MEMBER_ID
    assert classic.sync(member, 2).error is Error.ILLEGAL_GENERATION
    assert classic.sync(member, 1, protocol=("connect", "range")).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert classic.sync(member, 1, protocol=("consumer", "sticky")).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert classic.heartbeat(member, 7) is Error.ILLEGAL_GENERATION


def test_a_group_has_no_more_members_than_it_may() -> None:
    classic = Classic(group_max_size="1")
    [member] = classic.stable(None)
    assert classic.join().error is Error.GROUP_MAX_SIZE_REACHED
    assert classic.join(member).body["generation_id"] == 2


def test_a_member_that_missed_the_answer_gets_it_again() -> None:
    classic = Classic()
    _, follower = classic.stable(None, None)
    again = classic.join(follower)
    assert again.body["generation_id"] == 2
    assert classic.group.state == "Stable"


@pytest.mark.parametrize("changed", [{"range": b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"}, {**RANGE, **OTHER}])
def test_a_follower_that_subscribes_to_something_else_begins_a_round(changed: dict[str, bytes]) -> None:
    classic = Classic()
    _, follower = classic.stable(None, None)
    assert classic.join(follower, protocols=changed).waits


def test_the_leader_begins_a_round_whenever_it_joins() -> None:
    classic = Classic()
    leader, _ = classic.stable(None, None)
    assert classic.join(leader).waits


def test_a_static_member_comes_back_without_a_round() -> None:
    classic = Classic()
    leader, follower = classic.stable("one", "two")
    assert leader.startswith("one-")
    back = classic.join(instance="two")
    assert back.member_id not in (leader, follower)
    assert back.body["generation_id"] == 2
    assert classic.heartbeat(follower, 2, "two") is Error.FENCED_INSTANCE_ID
    assert classic.heartbeat(follower, 2) is Error.UNKNOWN_MEMBER_ID
    assert classic.heartbeat(back.member_id, 2, "three") is Error.UNKNOWN_MEMBER_ID
    assert classic.sync(back.member_id, 2, instance="two").body["assignment"] == follower.encode()


def test_a_static_leader_that_comes_back_leaves_the_assignment_as_it_is() -> None:
    classic = Classic()
    leader, _ = classic.stable("one", "two")
    back = classic.join(instance="one")
    assert back.body["skip_assignment"]
    assert back.body["leader"] == back.member_id
    assert len(back.body["members"]) == 2
    older = classic.join(instance="one", skips=False)  # which cannot be told so: it takes itself for a follower
    assert older.body["leader"] == back.member_id
    assert older.body["members"] == []
    assert leader not in classic.group.members


def test_a_static_member_that_waits_is_fenced_by_its_second_self() -> None:
    classic = Classic()
    classic.stable("one", None)
    waiting = classic.join(instance="three")
    second = classic.join(instance="three")
    assert waiting.error is Error.FENCED_INSTANCE_ID
    assert second.waits


def test_static_members_stay_in_a_round_that_they_miss() -> None:
    classic = Classic()
    _, static, dynamic = classic.stable(None, "s", None)
    again = classic.join(dynamic, protocols={"range": b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"})
    for _ in range(9):
        classic.clock.go_on(3_500)
        classic.heartbeat(static, 3, "s")
    assert set(classic.group.members) == {static, dynamic}
    assert again.body["leader"] == dynamic


def test_static_members_leave_by_their_instance() -> None:
    classic = Classic()
    classic.stable("one", "two")
    errors = classic.group.leave([("", "one"), ("", "three"), ("wrong", "two")])
    assert errors == [Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID]
    assert classic.group.state == "PreparingRebalance"


def test_who_may_commit() -> None:
    classic = Classic()

    def error(member_id: str, epoch: int, *, transactional: bool = False) -> Error:
        try:
            classic.group.check_commit(member_id, None, epoch, transactional=transactional, version=8)
        except Refused as refused:
            return refused.error
        return Error.NONE

    assert error("", -1) is Error.NONE
    assert error("", 3) is Error.UNKNOWN_MEMBER_ID
    [member] = classic.stable(None)
    assert error(member, 1) is Error.NONE
    assert error(member, 0) is Error.ILLEGAL_GENERATION
    assert error("", -1) is Error.UNKNOWN_MEMBER_ID
    assert error("", -1, transactional=True) is Error.NONE
    classic.join(member)
    assert error(member, 2) is Error.REBALANCE_IN_PROGRESS
    assert error(member, 2, transactional=True) is Error.NONE


def test_a_commit_keeps_a_member_in() -> None:
    classic = Classic()
    [member] = classic.stable(None)
    for _ in range(4):
        classic.clock.go_on(8_000)
        classic.group.check_commit(member, None, 1, transactional=False, version=8)
    assert classic.heartbeat(member, 1) is Error.NONE


def test_topics_that_members_read_are_known_from_their_subscriptions() -> None:
    classic = Classic()
    assert not classic.group.is_subscribed("t")
    classic.stable(None)
    assert classic.group.is_subscribed("t")
    assert not classic.group.is_subscribed("u")


def test_with_subscriptions_that_cannot_be_read_every_topic_may_be_one() -> None:
    classic = Classic()
    classic.join(protocols={"range": b"\xff"})
    assert classic.group.is_subscribed("anything")


def test_ids_that_members_are_told_are_bounded() -> None:
    classic = Classic()
    errors = [classic.join(learns_id=True).error for _ in range(1001)]
    assert errors[:1000] == [Error.MEMBER_ID_REQUIRED] * 1000
    assert errors[1000] is Error.GROUP_MAX_SIZE_REACHED
    classic.clock.go_on(10_001)
    assert classic.join(learns_id=True).error is Error.MEMBER_ID_REQUIRED
