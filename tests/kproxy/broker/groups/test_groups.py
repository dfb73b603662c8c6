from __future__ import annotations

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups import groups as groups_module
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.offsets import CommittedOffset, Offsets
from kproxy.broker.topics import Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.classic_group import ClassicGroupHarness
from tests.kproxy.broker.groups.consumers import ConsumerGroupHarness
from tests.kproxy.broker.groups.journals import InMemoryJournal, make_cluster

DAY = 24 * 3600 * 1000


def test_stable_classic_group_survives_a_restart() -> None:
    harness, journal = ClassicGroupHarness(), InMemoryJournal()
    harness.move_to(make_cluster(harness.clock, journal))
    leader, static = harness.make_stable(None, "one")
    harness.move_to(make_cluster(harness.clock, journal))
    assert harness.group.state == "Stable"
    assert harness.group.is_subscribed("t")
    assert harness.heartbeat(leader, 2) is Error.NONE
    assert harness.sync(static, 2, instance="one").body["assignment"] == static.encode()
    harness.clock.advance(9_000)
    harness.heartbeat(leader, 2)
    harness.clock.advance(2_000)
    assert harness.heartbeat(leader, 2) is Error.REBALANCE_IN_PROGRESS, (
        "the session of the static member must have expired"
    )


def test_empty_classic_group_keeps_its_generation_after_a_restart() -> None:
    harness, journal = ClassicGroupHarness(), InMemoryJournal()
    harness.move_to(make_cluster(harness.clock, journal))
    [member] = harness.make_stable(None)
    harness.group.leave([(member, None)])
    harness.move_to(make_cluster(harness.clock, journal))
    assert (harness.group.state, harness.group.generation) == ("Empty", 2)
    assert harness.join().body["generation_id"] == 3


def test_consumer_group_survives_a_restart() -> None:
    harness, journal = ConsumerGroupHarness(), InMemoryJournal()
    harness.move_to(make_cluster(harness.clock, journal))
    harness.join("a", regex="t.*")
    harness.join("b", instance_id="two")
    harness.settle("a", "b")
    epoch, partitions, description = harness.group.epoch, harness.assigned_indexes("b"), harness.group.describe()
    harness.move_to(make_cluster(harness.clock, journal))
    assert harness.group.describe() == description
    assert "assignment" not in harness.consumer_heartbeat("b", epoch, instance_id="two")
    harness.consumer_heartbeat("a", epoch)
    assert (harness.group.epoch, harness.assigned_indexes("b")) == (epoch, partitions)
    harness.clock.advance(45_001)
    assert harness.group.is_empty


def test_group_with_only_offsets_survives_a_restart() -> None:
    clock, journal = FakeClock(), InMemoryJournal()
    first_cluster = make_cluster(clock, journal)
    commit(first_cluster, "g")
    [group] = make_cluster(clock, journal).part(Groups)
    assert (group.id, group.type, group.state, group.protocol_type) == ("g", "classic", "Empty", "")


def commit(cluster: object, group: str, expires_at: int | None = None) -> None:
    get_part = cluster.part  # type: ignore[attr-defined]
    topic = get_part(Topics).by_name("t")
    get_part(Groups).for_commits(group)
    get_part(Offsets).commit(group, {("t", 0): CommittedOffset(1, -1, "", cluster.clock.now(), topic.id, expires_at)})  # type: ignore[attr-defined]


def test_unused_offsets_expire_and_so_does_the_group() -> None:
    clock = FakeClock()
    cluster = make_cluster(clock)
    commit(cluster, "g")
    clock.advance(6 * DAY)
    assert cluster.part(Groups).get("g") is not None
    clock.advance(DAY)
    assert cluster.part(Groups).get("g") is None
    assert not cluster.part(Offsets).for_group("g")


def test_offsets_expire_at_the_time_the_client_requested() -> None:
    clock = FakeClock()
    cluster = make_cluster(clock)
    commit(cluster, "g", expires_at=clock.now() + 1000)
    clock.advance(DAY)
    assert cluster.part(Groups).get("g") is None


@pytest.mark.slow
def test_offsets_expire_only_after_the_group_becomes_empty() -> None:
    harness = ClassicGroupHarness()
    harness.move_to(make_cluster(harness.clock))
    [member] = harness.make_stable(None)
    commit(harness.cluster, "g")
    for _ in range(8 * 24 * 60):
        harness.clock.advance(60_000 // 7)
        harness.heartbeat(member, 1)
    assert harness.cluster.part(Groups).get("g") is harness.group
    harness.group.leave([(member, None)])
    harness.clock.advance(7 * DAY - 1)
    assert harness.cluster.part(Groups).get("g") is not None, "retention starts when the group becomes empty"
    harness.clock.advance(DAY)
    assert harness.cluster.part(Groups).get("g") is None


def test_empty_group_can_change_its_type() -> None:
    harness = ConsumerGroupHarness()
    commit(harness.cluster, "g")
    harness.join("a")
    assert harness.group.type == "consumer"
    assert harness.cluster.part(Offsets).for_group("g"), "its offsets remain"
    harness.consumer_heartbeat("a", -1)
    assert isinstance(harness.groups.classic_group("g"), ClassicGroup)


def test_limits_the_number_of_groups_and_drops_empty_ones_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_MAX_GROUPS", 2)
    cluster = make_cluster(FakeClock())
    groups = cluster.part(Groups)
    groups.classic_group("empty")
    commit(cluster, "g")
    commit(cluster, "h")
    assert {group.id for group in groups} == {"g", "h"}
    with pytest.raises(ApiError) as refused:
        groups.classic_group("i")
    assert refused.value.error is Error.GROUP_MAX_SIZE_REACHED


def test_limits_the_bytes_that_members_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_MAX_BYTES", 10_000)
    harness = ClassicGroupHarness()
    harness.groups.check_capacity(8_000)
    harness.join(protocols={"range": bytes(8_000)})
    with pytest.raises(ApiError) as refused:
        harness.groups.check_capacity(8_000)
    assert refused.value.error is Error.GROUP_MAX_SIZE_REACHED
    harness.group.leave([(next(iter(harness.group.members)), None)])
    harness.groups.check_capacity(8_000)
