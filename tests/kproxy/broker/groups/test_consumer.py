from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.consumer_member import LEAVING, LEAVING_TEMPORARILY
from tests.kproxy.broker.groups.consumers import ConsumerGroupHarness


def assigned_partitions(response: Mapping[str, Any]) -> list[list[int]]:
    return [topic["partitions"] for topic in response["assignment"]["topic_partitions"]]


def test_first_member_gets_all_partitions_at_once() -> None:
    harness = ConsumerGroupHarness()
    response = harness.join("a")
    assert response["member_epoch"] == 2
    assert response["heartbeat_interval_ms"] == 5000
    assert assigned_partitions(response) == [[0, 1, 2, 3]]
    assert harness.group.state == "Stable"
    assert "assignment" not in harness.consumer_heartbeat("a", 2)


def test_second_member_gets_partitions_after_the_first_revokes_them() -> None:
    harness = ConsumerGroupHarness()
    harness.join("a")
    assert assigned_partitions(harness.join("b")) == []
    assert harness.group.state == "Reconciling"
    response = harness.consumer_heartbeat("a", 2)
    assert response["member_epoch"] == 2
    [kept] = assigned_partitions(response)
    assert len(kept) == 2
    assert "assignment" not in harness.consumer_heartbeat("b", 3), "a has not reported any revocation"
    assert harness.consumer_heartbeat("a", 2, owned=harness.partitions("t", 0, 1, 2, 3))["member_epoch"] == 2
    assert harness.consumer_heartbeat("a", 2, owned=harness.partitions("t", *kept))["member_epoch"] == 3
    [others] = assigned_partitions(harness.consumer_heartbeat("b", 3))
    assert sorted(kept + others) == [0, 1, 2, 3]
    assert harness.group.state == "Stable"


def test_removes_a_member_that_does_not_revoke_in_time() -> None:
    harness = ConsumerGroupHarness()
    harness.join("a")
    harness.join("b")
    harness.consumer_heartbeat("a", 2)
    for _ in range(5):
        harness.clock.advance(4_100)
        harness.consumer_heartbeat("b", harness.group.members["b"].epoch)
    assert harness.error("a", 2) is Error.UNKNOWN_MEMBER_ID
    assert harness.assigned_indexes("b") == [0, 1, 2, 3]


def test_removes_a_silent_member_after_the_session_timeout_of_the_group() -> None:
    harness = ConsumerGroupHarness(group_consumer_session_timeout_ms="45000")
    harness.join("a")
    harness.clock.advance(45_001)
    assert harness.group.state == "Empty"
    assert harness.error("a", 2) is Error.UNKNOWN_MEMBER_ID


def test_partitions_of_a_member_that_leaves_are_reassigned() -> None:
    harness = ConsumerGroupHarness()
    harness.join("a")
    harness.join("b")
    harness.settle("a", "b")
    assert harness.consumer_heartbeat("b", LEAVING) == {"member_id": "b", "member_epoch": -1}
    harness.settle("a")
    assert harness.assigned_indexes("a") == [0, 1, 2, 3]
    assert harness.error("b", LEAVING) is Error.UNKNOWN_MEMBER_ID


def test_rejects_wrong_member_epochs() -> None:
    harness = ConsumerGroupHarness()
    harness.join("a")
    harness.join("b")
    harness.settle("a", "b")
    epoch = harness.group.members["a"].epoch
    owned = frozenset(harness.group.members["a"].assigned)
    assert harness.error("a", epoch + 1) is Error.FENCED_MEMBER_EPOCH
    assert harness.error("a", epoch - 1) is Error.FENCED_MEMBER_EPOCH
    assert harness.error("a", epoch - 1, owned=owned) is Error.NONE, "it missed the response"
    assert harness.error("nobody", 1) is Error.UNKNOWN_MEMBER_ID


def test_new_partitions_and_new_topics_are_assigned() -> None:
    harness = ConsumerGroupHarness()
    harness.join("a", ("t", "later"))
    topic = harness.topics.by_name("t")
    assert topic is not None
    harness.topics.add_partitions(topic, [[1]])
    assert assigned_partitions(harness.consumer_heartbeat("a", 2)) == [[0, 1, 2, 3, 4]]
    harness.create("later")
    assert len(assigned_partitions(harness.consumer_heartbeat("a", 3))) == 2


def test_deleted_topic_is_unassigned() -> None:
    harness = ConsumerGroupHarness()
    harness.create("u")
    harness.join("a", ("t", "u"))
    topic = harness.topics.by_name("t")
    assert topic is not None
    harness.topics.delete(topic)
    assert assigned_partitions(harness.consumer_heartbeat("a", 2)) == [[0]]


def test_pattern_subscribes_to_existing_and_new_topics() -> None:
    harness = ConsumerGroupHarness()
    harness.create("orders-eu")
    response = harness.join("a", (), regex="orders-.*")
    assert assigned_partitions(response) == [[0]]
    harness.create("orders-us", 2)
    harness.create("xorders-us")
    harness.consumer_heartbeat("a", 2)
    assert harness.assigned_indexes("a") == [0, 0, 1]
    harness.consumer_heartbeat("a", 3, regex="")
    assert harness.assigned_indexes("a") == []


@pytest.mark.parametrize("regex", ["(", "*", "(?=a)", "a" * 10_000, r"(a)\1"])
def test_rejects_an_invalid_pattern_without_creating_a_group(regex: str) -> None:
    harness = ConsumerGroupHarness()
    with pytest.raises(ApiError) as refused:
        harness.join("a", (), regex=regex)
    assert refused.value.error is Error.INVALID_REGULAR_EXPRESSION
    assert harness.groups.get("g") is None


def test_pattern_matches_only_topics_the_client_may_see() -> None:
    harness = ConsumerGroupHarness()
    harness.create("secret")
    harness.join("a", (), regex=".*", visible=lambda topic: topic != "secret")
    assert harness.assigned_indexes("a") == [0, 1, 2, 3]


def test_member_revokes_topics_it_no_longer_subscribes_to() -> None:
    harness = ConsumerGroupHarness()
    harness.create("u", 2)
    harness.join("a", ("t",))
    response = harness.consumer_heartbeat("a", 2, topics=frozenset({"u"}))
    assert assigned_partitions(response) == []
    assert assigned_partitions(harness.consumer_heartbeat("a", 2, owned=frozenset())) == [[0, 1]]


def test_member_that_unsubscribes_while_revoking_also_revokes_those_partitions() -> None:
    harness = ConsumerGroupHarness()
    harness.create("u", 2)
    harness.join("a", ("t", "u"))
    harness.join("b", ("t",))
    harness.consumer_heartbeat("a", 2)
    t, u = harness.partitions("t", 0, 1, 2, 3), harness.partitions("u", 0, 1)
    kept_partitions = harness.group.members["a"].assigned.keys() & t
    response = harness.consumer_heartbeat("a", 2, topics=frozenset({"u"}), owned=t | u)
    assert assigned_partitions(response) == [[0, 1]]
    assert harness.group.members["a"].revoking.keys() == t, "including the partitions of t that it had kept"
    harness.consumer_heartbeat("a", 2, topics=frozenset(), owned=kept_partitions | u)
    assert harness.assigned_indexes("a") == []
    harness.consumer_heartbeat("a", 2, owned=frozenset())
    harness.settle("a", "b")
    assert harness.assigned_indexes("b") == [0, 1, 2, 3]


def test_static_member_keeps_its_partitions_while_it_is_away() -> None:
    harness = ConsumerGroupHarness()
    harness.join("a", instance_id="one")
    harness.join("b", instance_id="two")
    harness.settle("a", "b")
    partitions, epoch = harness.assigned_indexes("b"), harness.group.epoch
    assert harness.error("c", 0, instance_id="two") is Error.UNRELEASED_INSTANCE_ID
    assert (
        harness.consumer_heartbeat("b", LEAVING_TEMPORARILY, instance_id="two")["member_epoch"] == LEAVING_TEMPORARILY
    )
    assert harness.error("b", 4, instance_id="two") is Error.FENCED_MEMBER_EPOCH
    response = harness.join("c", instance_id="two")
    assert assigned_partitions(response) == [partitions]
    assert harness.group.epoch == epoch
    assert harness.error("b", epoch, instance_id="two") is Error.FENCED_INSTANCE_ID
    assert harness.error("b", epoch, instance_id="three") is Error.UNKNOWN_MEMBER_ID


def test_removes_a_static_member_that_does_not_return() -> None:
    harness = ConsumerGroupHarness()
    harness.join("b", instance_id="two")
    harness.consumer_heartbeat("b", LEAVING_TEMPORARILY, instance_id="two")
    harness.clock.advance(45_001)
    assert harness.group.is_empty


def test_rejects_a_member_above_the_group_max_size() -> None:
    harness = ConsumerGroupHarness(group_consumer_max_size="1")
    harness.join("a")
    with pytest.raises(ApiError, match="maximum capacity of 1 members"):
        harness.join("b")
    assert harness.join("a")["member_epoch"] == 2


def test_uses_the_assignor_that_most_members_request() -> None:
    harness = ConsumerGroupHarness()
    harness.join("a")
    assert harness.group.assignor == "uniform"
    harness.consumer_heartbeat("a", 2, assignor="range")
    assert harness.group.describe()["assignor_name"] == "range"


def test_describes_current_and_target_assignments() -> None:
    harness = ConsumerGroupHarness()
    harness.join("a")
    harness.join("b")
    harness.consumer_heartbeat("a", 2)
    [a, b] = harness.group.describe()["members"]
    assert [topic["partitions"] for topic in a["assignment"]["topic_partitions"]] == [[0, 1, 2, 3]]
    assert [len(topic["partitions"]) for topic in a["target_assignment"]["topic_partitions"]] == [2]
    assert a["target_assignment"]["topic_partitions"][0]["topic_name"] == "t"
    assert b["assignment"] == {"topic_partitions": []}


def test_commit_and_fetch_require_a_current_member_and_epoch() -> None:
    harness = ConsumerGroupHarness()

    def commit_error(member: str, epoch: int, index: int = 0, **options: Any) -> Error:
        [(topic, partition)] = harness.partitions("t", index)
        try:
            arguments = {"transactional": False, "version": 9, **options}
            harness.group.check_commit(member, None, epoch, **arguments)(topic, partition)
        except ApiError as api_error:
            return api_error.error
        return Error.NONE

    harness.join("a")
    harness.consumer_heartbeat("a", LEAVING)
    assert commit_error("", -1) is Error.NONE
    first_epoch = harness.join("a")["member_epoch"]
    harness.join("b")
    harness.settle("a", "b")
    epoch, [partition, *_] = harness.group.members["b"].epoch, harness.assigned_indexes("b")
    kept_index = harness.assigned_indexes("a")[0]
    assert commit_error("a", harness.group.members["a"].epoch) is Error.NONE
    assert commit_error("a", first_epoch, kept_index) is Error.NONE, (
        "member a has owned the partition since first_epoch"
    )
    assert commit_error("a", first_epoch, partition) is Error.STALE_MEMBER_EPOCH
    assert commit_error("b", epoch - 1, partition) is Error.STALE_MEMBER_EPOCH
    assert commit_error("b", epoch + 1) is Error.STALE_MEMBER_EPOCH
    assert commit_error("nobody", epoch) is Error.UNKNOWN_MEMBER_ID
    assert commit_error("", -1) is Error.UNKNOWN_MEMBER_ID
    assert commit_error("", -1, transactional=True) is Error.NONE
    assert commit_error("b", epoch, version=8) is Error.UNSUPPORTED_VERSION
    harness.group.check_fetch(None, -1)
    harness.group.check_fetch("b", epoch)
    with pytest.raises(ApiError):
        harness.group.check_fetch("b", epoch + 1)
    with pytest.raises(ApiError):
        harness.group.check_fetch("nobody", epoch)


def test_no_partition_has_two_owners_while_many_members_join_and_leave() -> None:
    harness = ConsumerGroupHarness()
    topic = harness.topics.by_name("t")
    assert topic is not None
    harness.topics.add_partitions(topic, [[1]] * 8)
    names = [f"m{number}" for number in range(7)]
    for number, name in enumerate(names):
        harness.join(name)
        for member_id in names[: number + 1]:
            state = harness.group.members[member_id]
            harness.consumer_heartbeat(member_id, state.epoch, owned=frozenset(state.assigned))
            held_partitions = [
                partition
                for member in harness.group.members.values()
                for partition in (*member.assigned, *member.revoking)
            ]
            assert len(held_partitions) == len(set(held_partitions))
    harness.settle(*names)
    assert sorted(index for name in names for index in harness.assigned_indexes(name)) == list(range(12))
    assert {len(harness.assigned_indexes(name)) for name in names} == {1, 2}
    for name in names[1:]:
        harness.consumer_heartbeat(name, LEAVING)
    harness.settle(names[0])
    assert harness.assigned_indexes(names[0]) == list(range(12))
