from __future__ import annotations

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups import groups as module
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.offsets import CommittedOffset, Offsets
from kproxy.broker.topics import Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.classic_group import ClassicGroupHarness
from tests.kproxy.broker.groups.consumers import ConsumerGroupHarness
from tests.kproxy.broker.groups.journals import InMemoryJournal, cluster

DAY = 24 * 3600 * 1000


def test_stable_classic_group_survives_a_restart() -> None:
    classic, journal = ClassicGroupHarness(), InMemoryJournal()
    classic.use(cluster(classic.clock, journal))
    leader, static = classic.stable(None, "one")
    classic.use(cluster(classic.clock, journal))
    assert classic.group.state == "Stable"
    assert classic.group.is_subscribed("t")
    assert classic.heartbeat(leader, 2) is Error.NONE
    assert classic.sync(static, 2, instance="one").body["assignment"] == static.encode()
    classic.clock.advance(9_000)
    classic.heartbeat(leader, 2)
    classic.clock.advance(2_000)
    assert classic.heartbeat(leader, 2) is Error.REBALANCE_IN_PROGRESS, "the other has not called"


def test_empty_classic_group_keeps_its_generation_after_a_restart() -> None:
    classic, journal = ClassicGroupHarness(), InMemoryJournal()
    classic.use(cluster(classic.clock, journal))
    [member] = classic.stable(None)
    classic.group.leave([(member, None)])
    classic.use(cluster(classic.clock, journal))
    assert (classic.group.state, classic.group.generation) == ("Empty", 2)
    assert classic.join().body["generation_id"] == 3


def test_consumer_group_survives_a_restart() -> None:
    consumers, journal = ConsumerGroupHarness(), InMemoryJournal()
    consumers.use(cluster(consumers.clock, journal))
    consumers.join("a", regex="t.*")
    consumers.join("b", instance_id="two")
    consumers.settle("a", "b")
    epoch, partitions, described = consumers.group.epoch, consumers.has("b"), consumers.group.describe()
    consumers.use(cluster(consumers.clock, journal))
    assert consumers.group.describe() == described
    assert "assignment" not in consumers.consumer_heartbeat("b", epoch, instance_id="two")
    consumers.consumer_heartbeat("a", epoch)
    assert (consumers.group.epoch, consumers.has("b")) == (epoch, partitions)
    consumers.clock.advance(45_001)
    assert consumers.group.is_empty


def test_group_with_only_offsets_survives_a_restart() -> None:
    clock, journal = FakeClock(), InMemoryJournal()
    first_cluster = cluster(clock, journal)
    commit(first_cluster, "g")
    [group] = cluster(clock, journal).part(Groups)
    assert (group.id, group.type, group.state, group.protocol_type) == ("g", "classic", "Empty", "")


def commit(owner: object, group: str, expires: int | None = None) -> None:
    get_part = owner.part  # type: ignore[attr-defined]
    topic = get_part(Topics).named("t")
    get_part(Groups).for_commits(group)
    get_part(Offsets).commit(group, {("t", 0): CommittedOffset(1, -1, "", owner.clock.now(), topic.id, expires)})  # type: ignore[attr-defined]


def test_unused_offsets_expire_and_so_does_the_group() -> None:
    clock = FakeClock()
    owner = cluster(clock)
    commit(owner, "g")
    clock.advance(6 * DAY)
    assert owner.part(Groups).get("g") is not None
    clock.advance(DAY)
    assert owner.part(Groups).get("g") is None
    assert not owner.part(Offsets).of("g")


def test_offsets_expire_at_the_time_the_client_requested() -> None:
    clock = FakeClock()
    owner = cluster(clock)
    commit(owner, "g", expires=clock.now() + 1000)
    clock.advance(DAY)
    assert owner.part(Groups).get("g") is None


def test_offsets_of_a_subscribed_topic_do_not_expire() -> None:
    classic = ClassicGroupHarness()
    classic.use(cluster(classic.clock))
    [member] = classic.stable(None)
    commit(classic.cluster, "g")
    for _ in range(8 * 24 * 60):
        classic.clock.advance(60_000 // 7)
        classic.heartbeat(member, 1)
    assert classic.cluster.part(Groups).get("g") is classic.group
    classic.group.leave([(member, None)])
    classic.clock.advance(7 * DAY - 1)
    assert classic.cluster.part(Groups).get("g") is not None, "counted from when it became empty"
    classic.clock.advance(DAY)
    assert classic.cluster.part(Groups).get("g") is None


def test_empty_group_can_change_its_type() -> None:
    consumers = ConsumerGroupHarness()
    commit(consumers.cluster, "g")
    consumers.join("a")
    assert consumers.group.type == "consumer"
    assert consumers.cluster.part(Offsets).of("g"), "its offsets stay"
    consumers.consumer_heartbeat("a", -1)
    assert isinstance(consumers.groups.classic("g"), ClassicGroup)


def test_limits_the_number_of_groups_and_drops_empty_ones_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_GROUPS", 2)
    owner = cluster(FakeClock())
    groups = owner.part(Groups)
    groups.classic("empty")
    commit(owner, "g")
    commit(owner, "h")
    assert {group.id for group in groups} == {"g", "h"}
    with pytest.raises(ApiError) as refused:
        groups.classic("i")
    assert refused.value.error is Error.GROUP_MAX_SIZE_REACHED


def test_limits_the_bytes_that_members_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_BYTES", 10_000)
    classic = ClassicGroupHarness()
    classic.groups.check_capacity(8_000)
    classic.join(protocols={"range": bytes(8_000)})
    with pytest.raises(ApiError) as refused:
        classic.groups.check_capacity(8_000)
    assert refused.value.error is Error.GROUP_MAX_SIZE_REACHED
    classic.group.leave([(next(iter(classic.group.members)), None)])
    classic.groups.check_capacity(8_000)
