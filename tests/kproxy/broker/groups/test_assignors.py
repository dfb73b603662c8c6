from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.broker.groups.assignors import ASSIGNORS, Subscriber, TopicIdPartition, assign_range, assign_uniform

TOPICS = ("t", "u", "v")


def member(name: str, topics: Collection[str], target: Collection[TopicIdPartition] = ()) -> Subscriber:
    return Subscriber(name, None, frozenset(topics), frozenset(target))


def test_uniform_moves_only_the_partitions_it_must() -> None:
    topics = {"t": 6}
    before = assign_uniform([member("a", "t"), member("b", "t")], topics)
    after = assign_uniform([member(name, "t", before.get(name, ())) for name in ("a", "b", "c")], topics)
    assert {each: len(parts) for each, parts in after.items()} == {"a": 2, "b": 2, "c": 2}
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
    targets = assign([member(each, subscribed) for each, subscribed in before.items()], topics)
    members = [member(each, subscribed, targets.get(each, ())) for each, subscribed in after.items()]
    assignment = assign(members, topics)
    assert assignment.keys() == after.keys()
    assigned = [part for parts in assignment.values() for part in parts]
    assert len(assigned) == len(set(assigned))
    subscribed_topics = set().union(*after.values())
    assert set(assigned) == {
        (topic, index) for topic, count in topics.items() if topic in subscribed_topics for index in range(count)
    }
    assert all(topic in after[each] for each, parts in assignment.items() for topic, _ in parts)


@given(
    names=st.frozensets(st.sampled_from("abcdefghij"), min_size=1), more=st.frozensets(st.sampled_from("abcdefghij"))
)
def test_uniform_balances_members_with_equal_subscriptions(names: frozenset[str], more: frozenset[str]) -> None:
    topics = {"t": 7, "u": 4}
    first = assign_uniform([member(name, "tu") for name in names], topics)
    second = assign_uniform([member(each, "tu", first.get(each, ())) for each in sorted(names | more)], topics)
    sizes = [len(parts) for parts in second.values()]
    assert max(sizes) - min(sizes) <= 1
