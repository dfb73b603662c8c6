from __future__ import annotations

import pytest

from kproxy.broker.errors import ApiError, Error
from tests.kproxy.broker.groups.classic_group import RANGE, ClassicGroupHarness

ROUND_ROBIN = {"roundrobin": RANGE["range"]}


def test_group_is_stable_after_its_only_member_joins_and_syncs() -> None:
    harness = ClassicGroupHarness()
    joined = harness.join()
    assert joined.member_id.startswith("client-")
    assert joined.body["leader"] == joined.member_id
    assert joined.body["generation_id"] == 1
    assert joined.body["protocol_name"] == "range"
    assert [member["metadata"] for member in joined.body["members"]] == [RANGE["range"]]
    assert harness.group.state == "CompletingRebalance"
    synced = harness.sync(joined.member_id, 1, {joined.member_id: b"all"}, protocol=("consumer", "range"))
    assert synced.body["assignment"] == b"all"
    assert harness.group.state == "Stable"
    assert harness.heartbeat(joined.member_id, 1) is Error.NONE


def test_new_member_receives_its_id_before_it_joins() -> None:
    harness = ClassicGroupHarness()
    response = harness.join(learns_id=True)
    assert response.error is Error.MEMBER_ID_REQUIRED
    assert harness.group.state == "Empty"
    assert harness.join(response.member_id).body["generation_id"] == 1


def test_pending_member_id_expires() -> None:
    harness = ClassicGroupHarness()
    response = harness.join(learns_id=True)
    harness.clock.advance(10_001)
    assert harness.join(response.member_id).error is Error.UNKNOWN_MEMBER_ID


def test_second_member_starts_a_rebalance_that_the_first_joins() -> None:
    harness = ClassicGroupHarness()
    [first] = harness.make_stable(None)
    second = harness.join()
    assert second.is_pending
    assert harness.group.state == "PreparingRebalance"
    assert harness.heartbeat(first, 1) is Error.REBALANCE_IN_PROGRESS
    rejoin_response = harness.join(first)
    assert rejoin_response.body["generation_id"] == second.body["generation_id"] == 2
    assert {member["member_id"] for member in rejoin_response.body["members"]} == {first, second.member_id}
    assert second.body["members"] == []
    pending_sync = harness.sync(second.member_id, 2)
    assert pending_sync.is_pending
    harness.sync(first, 2, {second.member_id: b"half"})
    assert pending_sync.body["assignment"] == b"half"


def test_removes_a_member_that_misses_the_rebalance_timeout() -> None:
    harness = ClassicGroupHarness()
    [first] = harness.make_stable(None)
    second = harness.join()
    for _ in range(9):
        harness.clock.advance(3_500)
        harness.heartbeat(first, 1)
    assert second.body["leader"] == second.member_id
    assert harness.heartbeat(first, 1) is Error.UNKNOWN_MEMBER_ID


def test_removes_a_silent_member_after_its_session_timeout() -> None:
    harness = ClassicGroupHarness()
    first, second = harness.make_stable(None, None)
    for _ in range(3):
        harness.clock.advance(4_000)
        harness.heartbeat(first, 2)
    assert harness.heartbeat(first, 2) is Error.REBALANCE_IN_PROGRESS
    assert harness.heartbeat(second, 2) is Error.UNKNOWN_MEMBER_ID
    assert [member["member_id"] for member in harness.join(first).body["members"]] == [first]


def test_empty_group_extends_its_initial_delay_while_members_join() -> None:
    harness = ClassicGroupHarness(group_initial_rebalance_delay_ms="3000")
    first = harness.join()
    harness.clock.advance(2_000)
    second = harness.join()
    harness.clock.advance(2_000)
    assert first.is_pending
    harness.clock.advance(2_000)
    assert first.body["generation_id"] == second.body["generation_id"] == 1


def test_removes_a_member_that_does_not_sync() -> None:
    harness = ClassicGroupHarness()
    first = harness.join()
    second = harness.join()
    harness.join(first.member_id)
    harness.sync(first.member_id, 2)
    for _ in range(8):
        harness.clock.advance(4_000)
        harness.heartbeat(first.member_id, 2)
        harness.heartbeat(second.member_id, 2)
    assert harness.heartbeat(second.member_id, 2) is Error.UNKNOWN_MEMBER_ID


def test_rebalance_fails_the_pending_sync_of_the_previous_generation() -> None:
    harness = ClassicGroupHarness()
    first, second = harness.make_stable(None, None)
    rejoin_responses = [harness.join(member_id) for member_id in (first, second)]
    assert rejoin_responses[0].body["generation_id"] == 3
    pending_sync = harness.sync(second, 3)
    harness.join()
    assert pending_sync.error is Error.REBALANCE_IN_PROGRESS
    assert harness.sync(second, 3).error is Error.REBALANCE_IN_PROGRESS


def test_group_is_empty_in_the_next_generation_after_the_last_member_leaves() -> None:
    harness = ClassicGroupHarness()
    [member] = harness.make_stable(None)
    assert harness.group.leave([("nobody", None), (member, None)]) == [Error.UNKNOWN_MEMBER_ID, Error.NONE]
    assert harness.group.state == "Empty"
    assert harness.group.generation == 2
    assert harness.join(member).error is Error.UNKNOWN_MEMBER_ID


def test_rejects_protocols_that_other_members_do_not_support() -> None:
    harness = ClassicGroupHarness()
    assert harness.join(protocols={}).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join(protocol_type="").error is Error.INCONSISTENT_GROUP_PROTOCOL
    harness.make_stable(None)
    assert harness.join(protocols=ROUND_ROBIN).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join(protocol_type="connect").error is Error.INCONSISTENT_GROUP_PROTOCOL


def test_chooses_the_common_protocol_that_most_members_prefer() -> None:
    harness = ClassicGroupHarness(group_initial_rebalance_delay_ms="100")
    range_first, round_robin_first = {**RANGE, **ROUND_ROBIN}, {**ROUND_ROBIN, **RANGE}
    joined = [harness.join(protocols=protocols) for protocols in (range_first, round_robin_first, round_robin_first)]
    harness.clock.advance(1_000)
    assert {response.body["protocol_name"] for response in joined} == {"roundrobin"}


def test_sync_rejects_a_wrong_member_generation_or_protocol() -> None:
    harness = ClassicGroupHarness()
    member = harness.join().member_id
    assert harness.sync("nobody", 1).error is Error.UNKNOWN_MEMBER_ID
    assert harness.sync(member, 2).error is Error.ILLEGAL_GENERATION
    assert harness.sync(member, 1, protocol=("connect", "range")).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert harness.sync(member, 1, protocol=("consumer", "sticky")).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert harness.heartbeat(member, 7) is Error.ILLEGAL_GENERATION


def test_rejects_a_member_above_the_group_max_size() -> None:
    harness = ClassicGroupHarness(group_max_size="1")
    [member] = harness.make_stable(None)
    assert harness.join().error is Error.GROUP_MAX_SIZE_REACHED
    assert harness.join(member).body["generation_id"] == 2


def test_follower_that_rejoins_unchanged_gets_the_same_response() -> None:
    harness = ClassicGroupHarness()
    _, follower = harness.make_stable(None, None)
    rejoin_response = harness.join(follower)
    assert rejoin_response.body["generation_id"] == 2
    assert harness.group.state == "Stable"


@pytest.mark.parametrize("changed", [{"range": b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"}, {**RANGE, **ROUND_ROBIN}])
def test_follower_with_a_changed_subscription_starts_a_rebalance(changed: dict[str, bytes]) -> None:
    harness = ClassicGroupHarness()
    _, follower = harness.make_stable(None, None)
    assert harness.join(follower, protocols=changed).is_pending


def test_leader_that_rejoins_starts_a_rebalance() -> None:
    harness = ClassicGroupHarness()
    leader, _ = harness.make_stable(None, None)
    assert harness.join(leader).is_pending


def test_static_member_rejoins_without_a_rebalance() -> None:
    harness = ClassicGroupHarness()
    leader, follower = harness.make_stable("one", "two")
    assert leader.startswith("one-")
    rejoin_response = harness.join(instance="two")
    assert rejoin_response.member_id not in (leader, follower)
    assert rejoin_response.body["generation_id"] == 2
    assert harness.heartbeat(follower, 2, "two") is Error.FENCED_INSTANCE_ID
    assert harness.heartbeat(follower, 2) is Error.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(rejoin_response.member_id, 2, "three") is Error.UNKNOWN_MEMBER_ID
    assert harness.sync(rejoin_response.member_id, 2, instance="two").body["assignment"] == follower.encode()


def test_static_leader_that_rejoins_keeps_the_assignment() -> None:
    harness = ClassicGroupHarness()
    leader, _ = harness.make_stable("one", "two")
    rejoin_response = harness.join(instance="one")
    assert rejoin_response.body["skip_assignment"]
    assert rejoin_response.body["leader"] == rejoin_response.member_id
    assert len(rejoin_response.body["members"]) == 2
    # The older client's version has no skip_assignment, so the client becomes a follower.
    older_client = harness.join(instance="one", skips=False)
    assert older_client.body["leader"] == rejoin_response.member_id
    assert older_client.body["members"] == []
    assert leader not in harness.group.members


def test_second_member_with_the_same_instance_id_fences_the_waiting_one() -> None:
    harness = ClassicGroupHarness()
    harness.make_stable("one", None)
    pending_join = harness.join(instance="three")
    second = harness.join(instance="three")
    assert pending_join.error is Error.FENCED_INSTANCE_ID
    assert second.is_pending


def test_static_members_survive_a_rebalance_that_they_miss() -> None:
    harness = ClassicGroupHarness()
    _, static, dynamic = harness.make_stable(None, "s", None)
    rejoin_response = harness.join(dynamic, protocols={"range": b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"})
    for _ in range(9):
        harness.clock.advance(3_500)
        harness.heartbeat(static, 3, "s")
    assert set(harness.group.members) == {static, dynamic}
    assert rejoin_response.body["leader"] == dynamic


def test_static_members_leave_by_instance_id() -> None:
    harness = ClassicGroupHarness()
    harness.make_stable("one", "two")
    errors = harness.group.leave([("", "one"), ("", "three"), ("wrong", "two")])
    assert errors == [Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID]
    assert harness.group.state == "PreparingRebalance"


def test_commit_requires_a_current_member_and_generation() -> None:
    harness = ClassicGroupHarness()

    def commit_error(member_id: str, epoch: int, *, transactional: bool = False) -> Error:
        try:
            harness.group.check_commit(member_id, None, epoch, transactional=transactional, version=8)
        except ApiError as refused:
            return refused.error
        return Error.NONE

    assert commit_error("", -1) is Error.NONE
    assert commit_error("", 3) is Error.UNKNOWN_MEMBER_ID
    [member] = harness.make_stable(None)
    assert commit_error(member, 1) is Error.NONE
    assert commit_error(member, 0) is Error.ILLEGAL_GENERATION
    assert commit_error("", -1) is Error.UNKNOWN_MEMBER_ID
    assert commit_error("", -1, transactional=True) is Error.NONE
    harness.join(member)
    assert commit_error(member, 2) is Error.REBALANCE_IN_PROGRESS
    assert commit_error(member, 2, transactional=True) is Error.NONE


def test_commit_counts_as_a_heartbeat() -> None:
    harness = ClassicGroupHarness()
    [member] = harness.make_stable(None)
    for _ in range(4):
        harness.clock.advance(8_000)
        harness.group.check_commit(member, None, 1, transactional=False, version=8)
    assert harness.heartbeat(member, 1) is Error.NONE


def test_group_reads_its_topics_from_the_subscriptions() -> None:
    harness = ClassicGroupHarness()
    assert not harness.group.is_subscribed("t")
    harness.make_stable(None)
    assert harness.group.is_subscribed("t")
    assert not harness.group.is_subscribed("u")


def test_treats_every_topic_as_subscribed_if_a_subscription_is_unreadable() -> None:
    harness = ClassicGroupHarness()
    harness.join(protocols={"range": b"\xff"})
    assert harness.group.is_subscribed("anything")


def test_limits_the_number_of_pending_member_ids() -> None:
    harness = ClassicGroupHarness()
    errors = [harness.join(learns_id=True).error for _ in range(1001)]
    assert errors[:1000] == [Error.MEMBER_ID_REQUIRED] * 1000
    assert errors[1000] is Error.GROUP_MAX_SIZE_REACHED
    harness.clock.advance(10_001)
    assert harness.join(learns_id=True).error is Error.MEMBER_ID_REQUIRED
