from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.broker.groups.assignors import ASSIGNORS, Part, Subscriber, range_, uniform

TOPICS = ("t", "u", "v")


def member(name: str, topics: Collection[str], target: Collection[Part] = ()) -> Subscriber:
    return Subscriber(name, None, frozenset(topics), frozenset(target))


def test_uniform_moves_no_more_than_it_must() -> None:
    topics = {"t": 6}
    before = uniform([member("a", "t"), member("b", "t")], topics)
    after = uniform([member(name, "t", before.get(name, ())) for name in ("a", "b", "c")], topics)
    assert {each: len(parts) for each, parts in after.items()} == {"a": 2, "b": 2, "c": 2}
    assert after["a"] < before["a"]
    assert after["b"] < before["b"]


def test_uniform_gives_a_partition_only_to_who_reads_its_topic() -> None:
    given_out = uniform([member("a", "tu"), member("b", "u")], {"t": 3, "u": 3})
    assert given_out == {
        "a": frozenset({("t", 0), ("t", 1), ("t", 2)}),
        "b": frozenset({("u", 0), ("u", 1), ("u", 2)}),
    }


def test_range_gives_runs_and_equal_topics_alike() -> None:
    given_out = range_([member("b", "tu"), member("a", "tu")], {"t": 3, "u": 3})
    assert given_out["a"] == {("t", 0), ("t", 1), ("u", 0), ("u", 1)}
    assert given_out["b"] == {("t", 2), ("u", 2)}


def test_range_goes_by_instances_first() -> None:
    static = Subscriber("z", "instance", frozenset("t"), frozenset())
    assert range_([member("a", "t"), static], {"t": 1})["z"] == {("t", 0)}


subscriptions = st.dictionaries(st.sampled_from("abcdefg"), st.frozensets(st.sampled_from(TOPICS)), max_size=6)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(before=subscriptions, after=subscriptions, topics=counts)
def test_every_partition_that_somebody_reads_goes_to_one_who_does(
    name: str, before: Mapping[str, frozenset[str]], after: Mapping[str, frozenset[str]], topics: Mapping[str, int]
) -> None:
    assign = ASSIGNORS[name]
    targets = assign([member(each, subscribed) for each, subscribed in before.items()], topics)
    members = [member(each, subscribed, targets.get(each, ())) for each, subscribed in after.items()]
    given_out = assign(members, topics)
    assert given_out.keys() == after.keys()
    every = [part for parts in given_out.values() for part in parts]
    assert len(every) == len(set(every))
    read = set().union(*after.values())
    assert set(every) == {(topic, index) for topic, count in topics.items() if topic in read for index in range(count)}
    assert all(topic in after[each] for each, parts in given_out.items() for topic, _ in parts)


@given(
    names=st.frozensets(st.sampled_from("abcdefghij"), min_size=1), more=st.frozensets(st.sampled_from("abcdefghij"))
)
def test_uniform_is_even_among_those_who_read_the_same(names: frozenset[str], more: frozenset[str]) -> None:
    topics = {"t": 7, "u": 4}
    first = uniform([member(name, "tu") for name in names], topics)
    then = uniform([member(each, "tu", first.get(each, ())) for each in sorted(names | more)], topics)
    sizes = [len(parts) for parts in then.values()]
    assert max(sizes) - min(sizes) <= 1
