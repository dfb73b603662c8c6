from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.consumer_member import LEAVING, LEAVING_TEMPORARILY
from tests.kproxy.broker.groups.consumers import ConsumerGroupHarness


def assigned_partitions(answer: Mapping[str, Any]) -> list[list[int]]:
    return [topic["partitions"] for topic in answer["assignment"]["topic_partitions"]]


def test_first_member_gets_all_partitions_at_once() -> None:
    consumers = ConsumerGroupHarness()
    response = consumers.join("a")
    assert response["member_epoch"] == 2
    assert response["heartbeat_interval_ms"] == 5000
    assert assigned_partitions(response) == [[0, 1, 2, 3]]
    assert consumers.group.state == "Stable"
    assert "assignment" not in consumers.consumer_heartbeat("a", 2)


def test_second_member_gets_partitions_after_the_first_revokes_them() -> None:
    consumers = ConsumerGroupHarness()
    consumers.join("a")
    assert assigned_partitions(consumers.join("b")) == []
    assert consumers.group.state == "Reconciling"
    response = consumers.consumer_heartbeat("a", 2)
    assert response["member_epoch"] == 2
    [kept] = assigned_partitions(response)
    assert len(kept) == 2
    assert "assignment" not in consumers.consumer_heartbeat("b", 3), "a has not reported any revocation"
    assert consumers.consumer_heartbeat("a", 2, owned=consumers.parts("t", 0, 1, 2, 3))["member_epoch"] == 2
    assert consumers.consumer_heartbeat("a", 2, owned=consumers.parts("t", *kept))["member_epoch"] == 3
    [others] = assigned_partitions(consumers.consumer_heartbeat("b", 3))
    assert sorted(kept + others) == [0, 1, 2, 3]
    assert consumers.group.state == "Stable"


def test_removes_a_member_that_does_not_revoke_in_time() -> None:
    consumers = ConsumerGroupHarness()
    consumers.join("a")
    consumers.join("b")
    consumers.consumer_heartbeat("a", 2)
    for _ in range(5):
        consumers.clock.advance(4_100)
        consumers.consumer_heartbeat("b", consumers.group.members["b"].epoch)
    assert consumers.error("a", 2) is Error.UNKNOWN_MEMBER_ID
    assert consumers.has("b") == [0, 1, 2, 3]


def test_removes_a_silent_member_after_the_session_timeout_of_the_group() -> None:
    consumers = ConsumerGroupHarness(group_consumer_session_timeout_ms="45000")
    consumers.join("a")
    consumers.clock.advance(45_001)
    assert consumers.group.state == "Empty"
    assert consumers.error("a", 2) is Error.UNKNOWN_MEMBER_ID


def test_partitions_of_a_member_that_leaves_are_reassigned() -> None:
    consumers = ConsumerGroupHarness()
    consumers.join("a")
    consumers.join("b")
    consumers.settle("a", "b")
    assert consumers.consumer_heartbeat("b", LEAVING) == {"member_id": "b", "member_epoch": -1}
    consumers.settle("a")
    assert consumers.has("a") == [0, 1, 2, 3]
    assert consumers.error("b", LEAVING) is Error.UNKNOWN_MEMBER_ID


def test_rejects_wrong_member_epochs() -> None:
    consumers = ConsumerGroupHarness()
    consumers.join("a")
    consumers.join("b")
    consumers.settle("a", "b")
    epoch = consumers.group.members["a"].epoch
    owned = frozenset(consumers.group.members["a"].assigned)
    assert consumers.error("a", epoch + 1) is Error.FENCED_MEMBER_EPOCH
    assert consumers.error("a", epoch - 1) is Error.FENCED_MEMBER_EPOCH
    assert consumers.error("a", epoch - 1, owned=owned) is Error.NONE, "it missed the answer"
    assert consumers.error("nobody", 1) is Error.UNKNOWN_MEMBER_ID


def test_new_partitions_and_new_topics_are_assigned() -> None:
    consumers = ConsumerGroupHarness()
    consumers.join("a", ("t", "later"))
    topic = consumers.topics.named("t")
    assert topic is not None
    consumers.topics.add_partitions(topic, [[1]])
    assert assigned_partitions(consumers.consumer_heartbeat("a", 2)) == [[0, 1, 2, 3, 4]]
    consumers.create("later")
    assert len(assigned_partitions(consumers.consumer_heartbeat("a", 3))) == 2


def test_deleted_topic_is_unassigned() -> None:
    consumers = ConsumerGroupHarness()
    consumers.create("u")
    consumers.join("a", ("t", "u"))
    topic = consumers.topics.named("t")
    assert topic is not None
    consumers.topics.delete(topic)
    assert assigned_partitions(consumers.consumer_heartbeat("a", 2)) == [[0]]


def test_pattern_subscribes_to_existing_and_new_topics() -> None:
    consumers = ConsumerGroupHarness()
    consumers.create("orders-eu")
    response = consumers.join("a", (), regex="orders-.*")
    assert assigned_partitions(response) == [[0]]
    consumers.create("orders-us", 2)
    consumers.create("xorders-us")
    consumers.consumer_heartbeat("a", 2)
    assert consumers.has("a") == [0, 0, 1]
    consumers.consumer_heartbeat("a", 3, regex="")
    assert consumers.has("a") == []


@pytest.mark.parametrize("regex", ["(", "*", "(?=a)", "a" * 10_000, r"(a)\1"])
def test_rejects_an_invalid_pattern_without_creating_a_group(regex: str) -> None:
    consumers = ConsumerGroupHarness()
    with pytest.raises(ApiError) as refused:
        consumers.join("a", (), regex=regex)
    assert refused.value.error is Error.INVALID_REGULAR_EXPRESSION
    assert consumers.groups.get("g") is None


def test_pattern_matches_only_topics_the_client_may_see() -> None:
    consumers = ConsumerGroupHarness()
    consumers.create("secret")
    consumers.join("a", (), regex=".*", visible=lambda topic: topic != "secret")
    assert consumers.has("a") == [0, 1, 2, 3]


def test_member_revokes_topics_it_no_longer_subscribes_to() -> None:
    consumers = ConsumerGroupHarness()
    consumers.create("u", 2)
    consumers.join("a", ("t",))
    response = consumers.consumer_heartbeat("a", 2, topics=frozenset({"u"}))
    assert assigned_partitions(response) == []
    assert assigned_partitions(consumers.consumer_heartbeat("a", 2, owned=frozenset())) == [[0, 1]]


def test_member_that_unsubscribes_during_revocation_revokes_these_partitions_too() -> None:
    consumers = ConsumerGroupHarness()
    consumers.create("u", 2)
    consumers.join("a", ("t", "u"))
    consumers.join("b", ("t",))
    consumers.consumer_heartbeat("a", 2)
    t, u = consumers.parts("t", 0, 1, 2, 3), consumers.parts("u", 0, 1)
    kept = consumers.group.members["a"].assigned.keys() & t
    response = consumers.consumer_heartbeat("a", 2, topics=frozenset({"u"}), owned=t | u)
    assert assigned_partitions(response) == [[0, 1]]
    assert consumers.group.members["a"].revoking.keys() == t, "what it had kept of t as well"
    consumers.consumer_heartbeat("a", 2, topics=frozenset(), owned=kept | u)
    assert consumers.has("a") == []
    consumers.consumer_heartbeat("a", 2, owned=frozenset())
    consumers.settle("a", "b")
    assert consumers.has("b") == [0, 1, 2, 3]


def test_static_member_keeps_its_partitions_while_it_is_away() -> None:
    consumers = ConsumerGroupHarness()
    consumers.join("a", instance_id="one")
    consumers.join("b", instance_id="two")
    consumers.settle("a", "b")
    partitions, epoch = consumers.has("b"), consumers.group.epoch
    assert consumers.error("c", 0, instance_id="two") is Error.UNRELEASED_INSTANCE_ID
    assert (
        consumers.consumer_heartbeat("b", LEAVING_TEMPORARILY, instance_id="two")["member_epoch"] == LEAVING_TEMPORARILY
    )
    assert consumers.error("b", 4, instance_id="two") is Error.FENCED_MEMBER_EPOCH
    response = consumers.join("c", instance_id="two")
    assert assigned_partitions(response) == [partitions]
    assert consumers.group.epoch == epoch
    assert consumers.error("b", epoch, instance_id="two") is Error.FENCED_INSTANCE_ID
    assert consumers.error("b", epoch, instance_id="three") is Error.UNKNOWN_MEMBER_ID


def test_removes_a_static_member_that_does_not_return() -> None:
    consumers = ConsumerGroupHarness()
    consumers.join("b", instance_id="two")
    consumers.consumer_heartbeat("b", LEAVING_TEMPORARILY, instance_id="two")
    consumers.clock.advance(45_001)
    assert consumers.group.is_empty


def test_rejects_a_member_above_the_group_max_size() -> None:
    consumers = ConsumerGroupHarness(group_consumer_max_size="1")
    consumers.join("a")
    with pytest.raises(ApiError, match="maximum capacity of 1 members"):
        consumers.join("b")
    assert consumers.join("a")["member_epoch"] == 2


def test_uses_the_assignor_that_most_members_request() -> None:
    consumers = ConsumerGroupHarness()
    consumers.join("a")
    assert consumers.group.assignor == "uniform"
    consumers.consumer_heartbeat("a", 2, assignor="range")
    assert consumers.group.describe()["assignor_name"] == "range"


def test_describes_current_and_target_assignments() -> None:
    consumers = ConsumerGroupHarness()
    consumers.join("a")
    consumers.join("b")
    consumers.consumer_heartbeat("a", 2)
    [a, b] = consumers.group.describe()["members"]
    assert [topic["partitions"] for topic in a["assignment"]["topic_partitions"]] == [[0, 1, 2, 3]]
    assert [len(topic["partitions"]) for topic in a["target_assignment"]["topic_partitions"]] == [2]
    assert a["target_assignment"]["topic_partitions"][0]["topic_name"] == "t"
    assert b["assignment"] == {"topic_partitions": []}


def test_commit_and_fetch_require_a_current_member_and_epoch() -> None:
    consumers = ConsumerGroupHarness()

    def commit(member: str, epoch: int, index: int = 0, **options: Any) -> Error:
        [(topic, part)] = consumers.parts("t", index)
        try:
            arguments = {"transactional": False, "version": 9, **options}
            consumers.group.check_commit(member, None, epoch, **arguments)(topic, part)
        except ApiError as refused:
            return refused.error
        return Error.NONE

    consumers.join("a")
    consumers.consumer_heartbeat("a", LEAVING)
    assert commit("", -1) is Error.NONE
    since = consumers.join("a")["member_epoch"]
    consumers.join("b")
    consumers.settle("a", "b")
    epoch, [first, *_] = consumers.group.members["b"].epoch, consumers.has("b")
    kept = consumers.has("a")[0]
    assert commit("a", consumers.group.members["a"].epoch) is Error.NONE
    assert commit("a", since, kept) is Error.NONE, "it has had that partition since then"
    assert commit("a", since, first) is Error.STALE_MEMBER_EPOCH
    assert commit("b", epoch - 1, first) is Error.STALE_MEMBER_EPOCH
    assert commit("b", epoch + 1) is Error.STALE_MEMBER_EPOCH
    assert commit("nobody", epoch) is Error.UNKNOWN_MEMBER_ID
    assert commit("", -1) is Error.UNKNOWN_MEMBER_ID
    assert commit("", -1, transactional=True) is Error.NONE
    assert commit("b", epoch, version=8) is Error.UNSUPPORTED_VERSION
    consumers.group.check_fetch(None, -1)
    consumers.group.check_fetch("b", epoch)
    with pytest.raises(ApiError):
        consumers.group.check_fetch("b", epoch + 1)
    with pytest.raises(ApiError):
        consumers.group.check_fetch("nobody", epoch)


def test_no_partition_has_two_owners_while_many_members_join_and_leave() -> None:
    consumers = ConsumerGroupHarness()
    topic = consumers.topics.named("t")
    assert topic is not None
    consumers.topics.add_partitions(topic, [[1]] * 8)
    names = [f"m{number}" for number in range(7)]
    for number, name in enumerate(names):
        consumers.join(name)
        for each in names[: number + 1]:
            state = consumers.group.members[each]
            consumers.consumer_heartbeat(each, state.epoch, owned=frozenset(state.assigned))
            held = [
                part for member in consumers.group.members.values() for part in (*member.assigned, *member.revoking)
            ]
            assert len(held) == len(set(held))
    consumers.settle(*names)
    assert sorted(index for name in names for index in consumers.has(name)) == list(range(12))
    assert {len(consumers.has(name)) for name in names} == {1, 2}
    for name in names[1:]:
        consumers.consumer_heartbeat(name, LEAVING)
    consumers.settle(names[0])
    assert consumers.has(names[0]) == list(range(12))
