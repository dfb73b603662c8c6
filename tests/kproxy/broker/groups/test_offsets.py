from __future__ import annotations

import pytest

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups import offsets as offsets_module
from kproxy.broker.groups.offsets import CommittedOffset, Offsets
from kproxy.broker.topics import Topic, Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.journals import InMemoryJournal, make_cluster


def topic(cluster: Cluster) -> Topic:
    result = cluster.part(Topics).by_name("t")
    assert result is not None
    return result


def make_commit(cluster: Cluster, offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", cluster.clock.now(), topic(cluster).id)


def committed_offsets(cluster: Cluster) -> dict[int, int]:
    return {partition: committed.offset for (_, partition), committed in cluster.part(Offsets).for_group("g").items()}


def test_staged_offsets_take_effect_on_commit() -> None:
    cluster = make_cluster(FakeClock())
    offsets = cluster.part(Offsets)
    offsets.commit("g", {("t", 0): make_commit(cluster, 5)})
    offsets.stage(7, 0, "g", {("t", 0): make_commit(cluster, 9), ("t", 1): make_commit(cluster, 3)})
    assert committed_offsets(cluster) == {0: 5}
    assert offsets.pending("g") == {("t", 0), ("t", 1)}
    offsets.complete(7, 0, "g", commit=True)
    assert committed_offsets(cluster) == {0: 9, 1: 3}
    assert not offsets.pending("g")


def test_staged_offsets_are_dropped_on_abort() -> None:
    cluster = make_cluster(FakeClock())
    offsets = cluster.part(Offsets)
    offsets.stage(7, 0, "g", {("t", 0): make_commit(cluster, 9)})
    offsets.complete(7, 1, "g", commit=False)
    assert committed_offsets(cluster) == {}
    assert not offsets.pending("g")
    assert list(offsets.groups()) == []


def test_later_plain_commit_overrides_a_staged_one() -> None:
    cluster = make_cluster(FakeClock())
    offsets = cluster.part(Offsets)
    offsets.stage(7, 0, "g", {("t", 0): make_commit(cluster, 9)})
    offsets.commit("g", {("t", 0): make_commit(cluster, 11)})
    offsets.complete(7, 0, "g", commit=True)
    assert committed_offsets(cluster) == {0: 11}


def test_completion_leaves_offsets_of_newer_epochs_and_other_producers_staged() -> None:
    cluster = make_cluster(FakeClock())
    offsets = cluster.part(Offsets)
    offsets.stage(7, 3, "g", {("t", 0): make_commit(cluster, 9)})
    offsets.stage(8, 0, "g", {("t", 1): make_commit(cluster, 4)})
    offsets.complete(7, 2, "g", commit=True)
    assert offsets.pending("g") == {("t", 0), ("t", 1)}
    offsets.complete(7, 3, "g", commit=True)
    assert offsets.pending("g") == {("t", 1)}


def test_recreated_topic_has_no_offsets() -> None:
    cluster = make_cluster(FakeClock())
    offsets, topics = cluster.part(Offsets), cluster.part(Topics)
    offsets.commit("g", {("t", 0): make_commit(cluster, 5)})
    topics.delete(topic(cluster))
    topics.create("t", [[1]])
    assert committed_offsets(cluster) == {}


def test_committed_and_staged_offsets_survive_a_restart() -> None:
    clock, journal = FakeClock(), InMemoryJournal()
    first = make_cluster(clock, journal)
    offsets = first.part(Offsets)
    offsets.commit("g", {("t", 0): make_commit(first, 5), ("t", 2): make_commit(first, 1)})
    offsets.delete("g", ("t", 2))
    offsets.stage(7, 0, "g", {("t", 1): make_commit(first, 3)})
    second = make_cluster(clock, journal)
    assert committed_offsets(second) == {0: 5}
    second.part(Offsets).complete(7, 0, "g", commit=True)
    assert committed_offsets(make_cluster(clock, journal)) == {0: 5, 1: 3}
    second.part(Offsets).forget("g")
    assert journal.tables["offsets"] == journal.tables["staged offsets"] == {}


def test_limits_the_number_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_module, "_MAX_OFFSETS", 3)
    cluster = make_cluster(FakeClock())
    offsets = cluster.part(Offsets)
    offsets.commit("g", {("t", index): make_commit(cluster, 5) for index in range(2)})
    offsets.stage(7, 0, "g", {("t", 3): make_commit(cluster, 5)})
    for add in (
        lambda: offsets.commit("h", {("t", 0): make_commit(cluster, 1)}),
        lambda: offsets.stage(8, 0, "h", {("t", 0): make_commit(cluster, 1)}),
    ):
        with pytest.raises(ApiError) as refused:
            add()
        assert refused.value.error is Error.INVALID_COMMIT_OFFSET_SIZE
    offsets.forget("g")
    offsets.commit("h", {("t", 0): make_commit(cluster, 1)})
