from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.broker.groups.assignors import ASSIGNORS, Subscriber, TopicIdPartition, assign_range, assign_uniform

TOPICS = ("t", "u", "v")


def member(name: str, topics: Collection[str], target: Collection[TopicIdPartition] = ()) -> Subscriber:
    return Subscriber(name, None, frozenset(topics), frozenset(target))


def test_uniform_moves_no_more_partitions_than_necessary() -> None:
    topics = {"t": 6}
    before = assign_uniform([member("a", "t"), member("b", "t")], topics)
    after = assign_uniform([member(name, "t", before.get(name, ())) for name in ("a", "b", "c")], topics)
    assert {member_id: len(partitions) for member_id, partitions in after.items()} == {"a": 2, "b": 2, "c": 2}
    assert after["a"] < before["a"]
    assert after["b"] < before["b"]


def test_uniform_assigns_a_partition_only_to_subscribers_of_its_topic() -> None:
    assignment = assign_uniform([member("a", "tu"), member("b", "u")], {"t": 3, "u": 3})
    assert assignment == {
        "a": frozenset({("t", 0), ("t", 1), ("t", 2)}),
        "b": frozenset({("u", 0), ("u", 1), ("u", 2)}),
    }


def test_range_assigns_consecutive_partitions_and_treats_equal_topics_alike() -> None:
    assignment = assign_range([member("b", "tu"), member("a", "tu")], {"t": 3, "u": 3})
    assert assignment["a"] == {("t", 0), ("t", 1), ("u", 0), ("u", 1)}
    assert assignment["b"] == {("t", 2), ("u", 2)}


def test_range_orders_static_members_first() -> None:
    static = Subscriber("z", "instance", frozenset("t"), frozenset())
    assert assign_range([member("a", "t"), static], {"t": 1})["z"] == {("t", 0)}


subscriptions = st.dictionaries(st.sampled_from("abcdefg"), st.frozensets(st.sampled_from(TOPICS)), max_size=6)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(before=subscriptions, after=subscriptions, topics=counts)
def test_every_subscribed_partition_is_assigned_to_exactly_one_subscriber(
    name: str, before: Mapping[str, frozenset[str]], after: Mapping[str, frozenset[str]], topics: Mapping[str, int]
) -> None:
    assign = ASSIGNORS[name]
    targets = assign([member(member_id, subscribed) for member_id, subscribed in before.items()], topics)
    members = [member(id_, subscribed, targets.get(id_, ())) for id_, subscribed in after.items()]
    assignment = assign(members, topics)
    assert assignment.keys() == after.keys()
    assigned = [partition for partitions in assignment.values() for partition in partitions]
    assert len(assigned) == len(set(assigned))
    subscribed_topics = set().union(*after.values())
    assert set(assigned) == {
        (topic, index) for topic, count in topics.items() if topic in subscribed_topics for index in range(count)
    }
    assert all(topic in after[id_] for id_, partitions in assignment.items() for topic, _ in partitions)


@given(
    old_members=st.frozensets(st.sampled_from("abcdefghij"), min_size=1),
    new_members=st.frozensets(st.sampled_from("abcdefghij")),
)
def test_uniform_balances_members_with_equal_subscriptions(
    old_members: frozenset[str], new_members: frozenset[str]
) -> None:
    topics = {"t": 7, "u": 4}
    first = assign_uniform([member(id_, "tu") for id_ in old_members], topics)
    second = assign_uniform(
        [member(id_, "tu", first.get(id_, ())) for id_ in sorted(old_members | new_members)], topics
    )
    sizes = [len(partitions) for partitions in second.values()]
    assert max(sizes) - min(sizes) <= 1
