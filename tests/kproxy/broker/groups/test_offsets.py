from __future__ import annotations

import pytest

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups import offsets as module
from kproxy.broker.groups.offsets import Committed, Offsets
from kproxy.broker.topics import Topic, Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.journals import InMemory, cluster


def topic(of: Cluster) -> Topic:
    found = of.part(Topics).named("t")
    assert found is not None
    return found


def at(of: Cluster, offset: int) -> Committed:
    return Committed(offset, -1, "", of.clock.now(), topic(of).id)


def reached(of: Cluster) -> dict[int, int]:
    return {partition: one.offset for (_, partition), one in of.part(Offsets).of("g").items()}


def test_what_is_staged_holds_when_the_transaction_is_committed() -> None:
    one = cluster(FakeClock())
    offsets = one.part(Offsets)
    offsets.commit("g", {("t", 0): at(one, 5)})
    offsets.stage(7, 0, "g", {("t", 0): at(one, 9), ("t", 1): at(one, 3)})
    assert reached(one) == {0: 5}
    assert offsets.pending("g") == {("t", 0), ("t", 1)}
    offsets.complete(7, 0, "g", commit=True)
    assert reached(one) == {0: 9, 1: 3}
    assert not offsets.pending("g")


def test_what_is_staged_is_dropped_when_it_is_aborted() -> None:
    one = cluster(FakeClock())
    offsets = one.part(Offsets)
    offsets.stage(7, 0, "g", {("t", 0): at(one, 9)})
    offsets.complete(7, 1, "g", commit=False)
    assert reached(one) == {}
    assert not offsets.pending("g")
    assert list(offsets.groups()) == []


def test_a_later_plain_commit_stays() -> None:
    one = cluster(FakeClock())
    offsets = one.part(Offsets)
    offsets.stage(7, 0, "g", {("t", 0): at(one, 9)})
    offsets.commit("g", {("t", 0): at(one, 11)})
    offsets.complete(7, 0, "g", commit=True)
    assert reached(one) == {0: 11}


def test_what_a_newer_epoch_and_other_producers_have_staged_stays_staged() -> None:
    one = cluster(FakeClock())
    offsets = one.part(Offsets)
    offsets.stage(7, 3, "g", {("t", 0): at(one, 9)})
    offsets.stage(8, 0, "g", {("t", 1): at(one, 4)})
    offsets.complete(7, 2, "g", commit=True)
    assert offsets.pending("g") == {("t", 0), ("t", 1)}
    offsets.complete(7, 3, "g", commit=True)
    assert offsets.pending("g") == {("t", 1)}


def test_a_topic_that_is_made_anew_has_no_offsets() -> None:
    one = cluster(FakeClock())
    offsets, topics = one.part(Offsets), one.part(Topics)
    offsets.commit("g", {("t", 0): at(one, 5)})
    topics.delete(topic(one))
    topics.create("t", [[1]])
    assert reached(one) == {}


def test_offsets_and_what_is_staged_outlive_a_restart() -> None:
    clock, journal = FakeClock(), InMemory()
    one = cluster(clock, journal)
    offsets = one.part(Offsets)
    offsets.commit("g", {("t", 0): at(one, 5), ("t", 2): at(one, 1)})
    offsets.delete("g", ("t", 2))
    offsets.stage(7, 0, "g", {("t", 1): at(one, 3)})
    two = cluster(clock, journal)
    assert reached(two) == {0: 5}
    two.part(Offsets).complete(7, 0, "g", commit=True)
    assert reached(cluster(clock, journal)) == {0: 5, 1: 3}
    two.part(Offsets).forget("g")
    assert journal.tables["offsets"] == journal.tables["staged offsets"] == {}


def test_offsets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_OFFSETS", 3)
    one = cluster(FakeClock())
    offsets = one.part(Offsets)
    offsets.commit("g", {("t", index): at(one, 5) for index in range(2)})
    offsets.stage(7, 0, "g", {("t", 3): at(one, 5)})
    for more in (
        lambda: offsets.commit("h", {("t", 0): at(one, 1)}),
        lambda: offsets.stage(8, 0, "h", {("t", 0): at(one, 1)}),
    ):
        with pytest.raises(Refused) as refused:
            more()
        assert refused.value.error is Error.INVALID_COMMIT_OFFSET_SIZE
    offsets.forget("g")
    offsets.commit("h", {("t", 0): at(one, 1)})
