from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups.consumer_member import AWAY, LEAVING
from tests.kproxy.broker.groups.consumers import Consumers


def given(answer: Mapping[str, Any]) -> list[list[int]]:
    return [topic["partitions"] for topic in answer["assignment"]["topic_partitions"]]


def test_the_first_member_gets_everything_at_once() -> None:
    consumers = Consumers()
    answer = consumers.join("a")
    assert answer["member_epoch"] == 2
    assert answer["heartbeat_interval_ms"] == 5000
    assert given(answer) == [[0, 1, 2, 3]]
    assert consumers.group.state == "Stable"
    assert "assignment" not in consumers.consumer_heartbeat("a", 2)


def test_a_second_member_gets_what_the_first_has_given_up() -> None:
    consumers = Consumers()
    consumers.join("a")
    assert given(consumers.join("b")) == []
    assert consumers.group.state == "Reconciling"
    told = consumers.consumer_heartbeat("a", 2)
    assert told["member_epoch"] == 2
    [kept] = given(told)
    assert len(kept) == 2
    assert "assignment" not in consumers.consumer_heartbeat("b", 3), "a has not said that it has given up anything"
    assert consumers.consumer_heartbeat("a", 2, owned=consumers.parts("t", 0, 1, 2, 3))["member_epoch"] == 2
    assert consumers.consumer_heartbeat("a", 2, owned=consumers.parts("t", *kept))["member_epoch"] == 3
    [rest] = given(consumers.consumer_heartbeat("b", 3))
    assert sorted(kept + rest) == [0, 1, 2, 3]
    assert consumers.group.state == "Stable"


def test_who_does_not_give_up_in_time_is_out() -> None:
    consumers = Consumers()
    consumers.join("a")
    consumers.join("b")
    consumers.consumer_heartbeat("a", 2)
    for _ in range(5):
        consumers.clock.go_on(4_100)
        consumers.consumer_heartbeat("b", consumers.group.members["b"].epoch)
    assert consumers.error("a", 2) is Error.UNKNOWN_MEMBER_ID
    assert consumers.has("b") == [0, 1, 2, 3]


def test_a_silent_member_is_out_after_the_session_timeout_of_its_group() -> None:
    consumers = Consumers(group_consumer_session_timeout_ms="45000")
    consumers.join("a")
    consumers.clock.go_on(45_001)
    assert consumers.group.state == "Empty"
    assert consumers.error("a", 2) is Error.UNKNOWN_MEMBER_ID


def test_a_member_leaves() -> None:
    consumers = Consumers()
    consumers.join("a")
    consumers.join("b")
    consumers.settle("a", "b")
    assert consumers.consumer_heartbeat("b", LEAVING) == {"member_id": "b", "member_epoch": -1}
    consumers.settle("a")
    assert consumers.has("a") == [0, 1, 2, 3]
    assert consumers.error("b", LEAVING) is Error.UNKNOWN_MEMBER_ID


def test_epochs_that_a_member_cannot_have() -> None:
    consumers = Consumers()
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
    consumers = Consumers()
    consumers.join("a", ("t", "later"))
    topic = consumers.topics.named("t")
    assert topic is not None
    consumers.topics.add_partitions(topic, [[1]])
    assert given(consumers.consumer_heartbeat("a", 2)) == [[0, 1, 2, 3, 4]]
    consumers.create("later")
    assert len(given(consumers.consumer_heartbeat("a", 3))) == 2


def test_a_topic_that_is_gone_is_taken_away() -> None:
    consumers = Consumers()
    consumers.create("u")
    consumers.join("a", ("t", "u"))
    topic = consumers.topics.named("t")
    assert topic is not None
    consumers.topics.delete(topic)
    assert given(consumers.consumer_heartbeat("a", 2)) == [[0]]


def test_a_pattern_subscribes_to_what_is_there_and_what_comes() -> None:
    consumers = Consumers()
    consumers.create("orders-eu")
    answer = consumers.join("a", (), regex="orders-.*")
    assert given(answer) == [[0]]
    consumers.create("orders-us", 2)
    consumers.create("xorders-us")
    consumers.consumer_heartbeat("a", 2)
    assert consumers.has("a") == [0, 0, 1]
    consumers.consumer_heartbeat("a", 3, regex="")
    assert consumers.has("a") == []


@pytest.mark.parametrize("regex", ["(", "*", "(?=a)", "a" * 10_000, r"(a)\1"])
def test_a_pattern_that_cannot_be_read_is_refused_and_nobody_joins(regex: str) -> None:
    consumers = Consumers()
    with pytest.raises(Refused) as refused:
        consumers.join("a", (), regex=regex)
    assert refused.value.error is Error.INVALID_REGULAR_EXPRESSION
    assert consumers.groups.get("g") is None


def test_a_pattern_finds_nothing_that_who_asks_may_not_see() -> None:
    consumers = Consumers()
    consumers.create("secret")
    consumers.join("a", (), regex=".*", visible=lambda topic: topic != "secret")
    assert consumers.has("a") == [0, 1, 2, 3]


def test_a_member_that_subscribes_to_something_else_gives_up_the_rest() -> None:
    consumers = Consumers()
    consumers.create("u", 2)
    consumers.join("a", ("t",))
    told = consumers.consumer_heartbeat("a", 2, topics=frozenset({"u"}))
    assert given(told) == []
    assert given(consumers.consumer_heartbeat("a", 2, owned=frozenset())) == [[0, 1]]


def test_a_member_that_unsubscribes_while_it_gives_up_gives_up_that_as_well() -> None:
    consumers = Consumers()
    consumers.create("u", 2)
    consumers.join("a", ("t", "u"))
    consumers.join("b", ("t",))
    consumers.consumer_heartbeat("a", 2)
    t, u = consumers.parts("t", 0, 1, 2, 3), consumers.parts("u", 0, 1)
    kept = consumers.group.members["a"].assigned.keys() & t
    told = consumers.consumer_heartbeat("a", 2, topics=frozenset({"u"}), owned=t | u)
    assert given(told) == [[0, 1]]
    assert consumers.group.members["a"].revoking.keys() == t, "what it had kept of t as well"
    consumers.consumer_heartbeat("a", 2, topics=frozenset(), owned=kept | u)
    assert consumers.has("a") == []
    consumers.consumer_heartbeat("a", 2, owned=frozenset())
    consumers.settle("a", "b")
    assert consumers.has("b") == [0, 1, 2, 3]


def test_a_static_member_that_goes_for_a_while_keeps_its_partitions() -> None:
    consumers = Consumers()
    consumers.join("a", instance_id="one")
    consumers.join("b", instance_id="two")
    consumers.settle("a", "b")
    mine, epoch = consumers.has("b"), consumers.group.epoch
    assert consumers.error("c", 0, instance_id="two") is Error.UNRELEASED_INSTANCE_ID
    assert consumers.consumer_heartbeat("b", AWAY, instance_id="two")["member_epoch"] == AWAY
    assert consumers.error("b", 4, instance_id="two") is Error.FENCED_MEMBER_EPOCH
    answer = consumers.join("c", instance_id="two")
    assert given(answer) == [mine]
    assert consumers.group.epoch == epoch
    assert consumers.error("b", epoch, instance_id="two") is Error.FENCED_INSTANCE_ID
    assert consumers.error("b", epoch, instance_id="three") is Error.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_is_out() -> None:
    consumers = Consumers()
    consumers.join("b", instance_id="two")
    consumers.consumer_heartbeat("b", AWAY, instance_id="two")
    consumers.clock.go_on(45_001)
    assert consumers.group.is_empty


def test_a_group_has_no_more_members_than_it_may() -> None:
    consumers = Consumers(group_consumer_max_size="1")
    consumers.join("a")
    with pytest.raises(Refused, match="maximum capacity of 1 members"):
        consumers.join("b")
    assert consumers.join("a")["member_epoch"] == 2


def test_the_assignor_is_the_one_that_most_ask_for() -> None:
    consumers = Consumers()
    consumers.join("a")
    assert consumers.group.assignor == "uniform"
    consumers.consumer_heartbeat("a", 2, assignor="range")
    assert consumers.group.described()["assignor_name"] == "range"


def test_describes_what_members_have_and_are_to_have() -> None:
    consumers = Consumers()
    consumers.join("a")
    consumers.join("b")
    consumers.consumer_heartbeat("a", 2)
    [a, b] = consumers.group.described()["members"]
    assert [topic["partitions"] for topic in a["assignment"]["topic_partitions"]] == [[0, 1, 2, 3]]
    assert [len(topic["partitions"]) for topic in a["target_assignment"]["topic_partitions"]] == [2]
    assert a["target_assignment"]["topic_partitions"][0]["topic_name"] == "t"
    assert b["assignment"] == {"topic_partitions": []}


def test_who_may_commit_and_fetch_offsets() -> None:
    consumers = Consumers()

    def commit(member: str, epoch: int, index: int = 0, **more: Any) -> Error:
        [(topic, part)] = consumers.parts("t", index)
        try:
            asked = {"transactional": False, "version": 9, **more}
            consumers.group.check_commit(member, None, epoch, **asked)(topic, part)
        except Refused as refused:
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
    with pytest.raises(Refused):
        consumers.group.check_fetch("b", epoch + 1)
    with pytest.raises(Refused):
        consumers.group.check_fetch("nobody", epoch)


def test_many_members_come_and_go_and_no_partition_is_ever_with_two() -> None:
    consumers = Consumers()
    topic = consumers.topics.named("t")
    assert topic is not None
    consumers.topics.add_partitions(topic, [[1]] * 8)
    names = [f"m{number}" for number in range(7)]
    for number, name in enumerate(names):
        consumers.join(name)
        for each in names[: number + 1]:
            known = consumers.group.members[each]
            consumers.consumer_heartbeat(each, known.epoch, owned=frozenset(known.assigned))
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
