from __future__ import annotations

import pytest

from kproxy.broker.errors import ApiError, Error
from tests.kproxy.broker.groups.classic_group import RANGE, ClassicGroupHarness

ROUND_ROBIN = {"roundrobin": RANGE["range"]}


def test_group_is_stable_after_its_only_member_joins_and_syncs() -> None:
    classic = ClassicGroupHarness()
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


def test_new_member_receives_its_id_before_it_joins() -> None:
    classic = ClassicGroupHarness()
    response = classic.join(learns_id=True)
    assert response.error is Error.MEMBER_ID_REQUIRED
    assert classic.group.state == "Empty"
    assert classic.join(response.member_id).body["generation_id"] == 1


def test_pending_member_id_expires() -> None:
    classic = ClassicGroupHarness()
    response = classic.join(learns_id=True)
    classic.clock.advance(10_001)
    assert classic.join(response.member_id).error is Error.UNKNOWN_MEMBER_ID


def test_second_member_starts_a_rebalance_that_the_first_joins() -> None:
    classic = ClassicGroupHarness()
    [first] = classic.stable(None)
    second = classic.join()
    assert second.is_pending
    assert classic.group.state == "PreparingRebalance"
    assert classic.heartbeat(first, 1) is Error.REBALANCE_IN_PROGRESS
    again = classic.join(first)
    assert again.body["generation_id"] == second.body["generation_id"] == 2
    assert {member["member_id"] for member in again.body["members"]} == {first, second.member_id}
    assert second.body["members"] == []
    waiting = classic.sync(second.member_id, 2)
    assert waiting.is_pending
    classic.sync(first, 2, {second.member_id: b"half"})
    assert waiting.body["assignment"] == b"half"


def test_removes_a_member_that_misses_the_rebalance_timeout() -> None:
    classic = ClassicGroupHarness()
    [first] = classic.stable(None)
    second = classic.join()
    for _ in range(9):
        classic.clock.advance(3_500)
        classic.heartbeat(first, 1)
    assert second.body["leader"] == second.member_id
    assert classic.heartbeat(first, 1) is Error.UNKNOWN_MEMBER_ID


def test_removes_a_silent_member_after_its_session_timeout() -> None:
    classic = ClassicGroupHarness()
    first, second = classic.stable(None, None)
    for _ in range(3):
        classic.clock.advance(4_000)
        classic.heartbeat(first, 2)
    assert classic.heartbeat(first, 2) is Error.REBALANCE_IN_PROGRESS
    assert classic.heartbeat(second, 2) is Error.UNKNOWN_MEMBER_ID
    assert [member["member_id"] for member in classic.join(first).body["members"]] == [first]


def test_empty_group_extends_its_initial_delay_while_members_join() -> None:
    classic = ClassicGroupHarness(group_initial_rebalance_delay_ms="3000")
    first = classic.join()
    classic.clock.advance(2_000)
    second = classic.join()
    classic.clock.advance(2_000)
    assert first.is_pending
    classic.clock.advance(2_000)
    assert first.body["generation_id"] == second.body["generation_id"] == 1


def test_removes_a_member_that_does_not_sync() -> None:
    classic = ClassicGroupHarness()
    first = classic.join()
    second = classic.join()
    classic.join(first.member_id)
    classic.sync(first.member_id, 2)
    for _ in range(8):
        classic.clock.advance(4_000)
        classic.heartbeat(first.member_id, 2)
        classic.heartbeat(second.member_id, 2)
    assert classic.heartbeat(second.member_id, 2) is Error.UNKNOWN_MEMBER_ID


def test_rebalance_fails_the_pending_sync_of_the_previous_generation() -> None:
    classic = ClassicGroupHarness()
    first, second = classic.stable(None, None)
    again = [classic.join(each) for each in (first, second)]
    assert again[0].body["generation_id"] == 3
    syncing = classic.sync(second, 3)
    classic.join()
    assert syncing.error is Error.REBALANCE_IN_PROGRESS
    assert classic.sync(second, 3).error is Error.REBALANCE_IN_PROGRESS


def test_group_is_empty_in_the_next_generation_after_the_last_member_leaves() -> None:
    classic = ClassicGroupHarness()
    [member] = classic.stable(None)
    assert classic.group.leave([("nobody", None), (member, None)]) == [Error.UNKNOWN_MEMBER_ID, Error.NONE]
    assert classic.group.state == "Empty"
    assert classic.group.generation == 2
    assert classic.join(member).error is Error.UNKNOWN_MEMBER_ID


def test_rejects_protocols_that_other_members_do_not_support() -> None:
    classic = ClassicGroupHarness()
    assert classic.join(protocols={}).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert classic.join(protocol_type="").error is Error.INCONSISTENT_GROUP_PROTOCOL
    classic.stable(None)
    assert classic.join(protocols=ROUND_ROBIN).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert classic.join(protocol_type="connect").error is Error.INCONSISTENT_GROUP_PROTOCOL


def test_chooses_the_common_protocol_that_most_members_prefer() -> None:
    classic = ClassicGroupHarness(group_initial_rebalance_delay_ms="100")
    range_first, round_robin_first = {**RANGE, **ROUND_ROBIN}, {**ROUND_ROBIN, **RANGE}
    joined = [classic.join(protocols=each) for each in (range_first, round_robin_first, round_robin_first)]
    classic.clock.advance(1_000)
    assert {each.body["protocol_name"] for each in joined} == {"roundrobin"}


def test_sync_rejects_a_wrong_member_generation_or_protocol() -> None:
    classic = ClassicGroupHarness()
    member = classic.join().member_id
    assert classic.sync("nobody", 1).error is Error.UNKNOWN_MEMBER_ID
    assert classic.sync(member, 2).error is Error.ILLEGAL_GENERATION
    assert classic.sync(member, 1, protocol=("connect", "range")).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert classic.sync(member, 1, protocol=("consumer", "sticky")).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert classic.heartbeat(member, 7) is Error.ILLEGAL_GENERATION


def test_rejects_a_member_above_the_group_max_size() -> None:
    classic = ClassicGroupHarness(group_max_size="1")
    [member] = classic.stable(None)
    assert classic.join().error is Error.GROUP_MAX_SIZE_REACHED
    assert classic.join(member).body["generation_id"] == 2


def test_follower_that_rejoins_unchanged_gets_the_same_response() -> None:
    classic = ClassicGroupHarness()
    _, follower = classic.stable(None, None)
    again = classic.join(follower)
    assert again.body["generation_id"] == 2
    assert classic.group.state == "Stable"


@pytest.mark.parametrize("changed", [{"range": b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"}, {**RANGE, **ROUND_ROBIN}])
def test_follower_with_a_changed_subscription_starts_a_rebalance(changed: dict[str, bytes]) -> None:
    classic = ClassicGroupHarness()
    _, follower = classic.stable(None, None)
    assert classic.join(follower, protocols=changed).is_pending


def test_leader_that_rejoins_starts_a_rebalance() -> None:
    classic = ClassicGroupHarness()
    leader, _ = classic.stable(None, None)
    assert classic.join(leader).is_pending


def test_static_member_rejoins_without_a_rebalance() -> None:
    classic = ClassicGroupHarness()
    leader, follower = classic.stable("one", "two")
    assert leader.startswith("one-")
    back = classic.join(instance="two")
    assert back.member_id not in (leader, follower)
    assert back.body["generation_id"] == 2
    assert classic.heartbeat(follower, 2, "two") is Error.FENCED_INSTANCE_ID
    assert classic.heartbeat(follower, 2) is Error.UNKNOWN_MEMBER_ID
    assert classic.heartbeat(back.member_id, 2, "three") is Error.UNKNOWN_MEMBER_ID
    assert classic.sync(back.member_id, 2, instance="two").body["assignment"] == follower.encode()


def test_static_leader_that_rejoins_keeps_the_assignment() -> None:
    classic = ClassicGroupHarness()
    leader, _ = classic.stable("one", "two")
    back = classic.join(instance="one")
    assert back.body["skip_assignment"]
    assert back.body["leader"] == back.member_id
    assert len(back.body["members"]) == 2
    older = classic.join(instance="one", skips=False)  # its version has no skip_assignment, so it becomes a follower
    assert older.body["leader"] == back.member_id
    assert older.body["members"] == []
    assert leader not in classic.group.members


def test_second_member_with_the_same_instance_id_fences_the_waiting_one() -> None:
    classic = ClassicGroupHarness()
    classic.stable("one", None)
    waiting = classic.join(instance="three")
    second = classic.join(instance="three")
    assert waiting.error is Error.FENCED_INSTANCE_ID
    assert second.is_pending


def test_static_members_survive_a_rebalance_that_they_miss() -> None:
    classic = ClassicGroupHarness()
    _, static, dynamic = classic.stable(None, "s", None)
    again = classic.join(dynamic, protocols={"range": b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"})
    for _ in range(9):
        classic.clock.advance(3_500)
        classic.heartbeat(static, 3, "s")
    assert set(classic.group.members) == {static, dynamic}
    assert again.body["leader"] == dynamic


def test_static_members_leave_by_instance_id() -> None:
    classic = ClassicGroupHarness()
    classic.stable("one", "two")
    errors = classic.group.leave([("", "one"), ("", "three"), ("wrong", "two")])
    assert errors == [Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID]
    assert classic.group.state == "PreparingRebalance"


def test_commit_requires_a_current_member_and_generation() -> None:
    classic = ClassicGroupHarness()

    def error(member_id: str, epoch: int, *, transactional: bool = False) -> Error:
        try:
            classic.group.check_commit(member_id, None, epoch, transactional=transactional, version=8)
        except ApiError as refused:
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


def test_commit_counts_as_a_heartbeat() -> None:
    classic = ClassicGroupHarness()
    [member] = classic.stable(None)
    for _ in range(4):
        classic.clock.advance(8_000)
        classic.group.check_commit(member, None, 1, transactional=False, version=8)
    assert classic.heartbeat(member, 1) is Error.NONE


def test_reads_the_topics_of_a_group_from_the_subscriptions() -> None:
    classic = ClassicGroupHarness()
    assert not classic.group.is_subscribed("t")
    classic.stable(None)
    assert classic.group.is_subscribed("t")
    assert not classic.group.is_subscribed("u")


def test_treats_every_topic_as_subscribed_if_a_subscription_is_unreadable() -> None:
    classic = ClassicGroupHarness()
    classic.join(protocols={"range": b"\xff"})
    assert classic.group.is_subscribed("anything")


def test_limits_the_number_of_pending_member_ids() -> None:
    classic = ClassicGroupHarness()
    errors = [classic.join(learns_id=True).error for _ in range(1001)]
    assert errors[:1000] == [Error.MEMBER_ID_REQUIRED] * 1000
    assert errors[1000] is Error.GROUP_MAX_SIZE_REACHED
    classic.clock.advance(10_001)
    assert classic.join(learns_id=True).error is Error.MEMBER_ID_REQUIRED
