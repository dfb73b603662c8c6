from __future__ import annotations

import pytest

from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups import groups as module
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.offsets import Committed, Offsets
from kproxy.broker.topics import Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.classic_group import Classic
from tests.kproxy.broker.groups.consumers import Consumers
from tests.kproxy.broker.groups.journals import InMemory, cluster

DAY = 24 * 3600 * 1000


def test_a_stable_classic_group_goes_on_after_a_restart() -> None:
    classic, journal = Classic(), InMemory()
    classic.use(cluster(classic.clock, journal))
    leader, static = classic.stable(None, "one")
    classic.use(cluster(classic.clock, journal))
    assert classic.group.state == "Stable"
    assert classic.group.is_subscribed("t")
    assert classic.heartbeat(leader, 2) is Error.NONE
    assert classic.sync(static, 2, instance="one").body["assignment"] == static.encode()
    classic.clock.go_on(9_000)
    classic.heartbeat(leader, 2)
    classic.clock.go_on(2_000)
    assert classic.heartbeat(leader, 2) is Error.REBALANCE_IN_PROGRESS, "the other has not called"


def test_an_empty_classic_group_keeps_its_generation() -> None:
    classic, journal = Classic(), InMemory()
    classic.use(cluster(classic.clock, journal))
    [member] = classic.stable(None)
    classic.group.leave([(member, None)])
    classic.use(cluster(classic.clock, journal))
    assert (classic.group.state, classic.group.generation) == ("Empty", 2)
    assert classic.join().body["generation_id"] == 3


def test_a_consumer_group_goes_on_after_a_restart() -> None:
    consumers, journal = Consumers(), InMemory()
    consumers.use(cluster(consumers.clock, journal))
    consumers.join("a", regex="t.*")
    consumers.join("b", instance_id="two")
    consumers.settle("a", "b")
    epoch, mine, described = consumers.group.epoch, consumers.has("b"), consumers.group.described()
    consumers.use(cluster(consumers.clock, journal))
    assert consumers.group.described() == described
    assert "assignment" not in consumers.consumer_heartbeat("b", epoch, instance_id="two")
    consumers.consumer_heartbeat("a", epoch)
    assert (consumers.group.epoch, consumers.has("b")) == (epoch, mine)
    consumers.clock.go_on(45_001)
    assert consumers.group.is_empty


def test_a_group_that_only_has_offsets_is_there_after_a_restart() -> None:
    clock, journal = FakeClock(), InMemory()
    one = cluster(clock, journal)
    commit(one, "g")
    [group] = cluster(clock, journal).part(Groups)
    assert (group.id, group.type, group.state, group.protocol_type) == ("g", "classic", "Empty", "")


def commit(of: object, group: str, expires: int | None = None) -> None:
    part = of.part  # type: ignore[attr-defined]
    topic = part(Topics).named("t")
    part(Groups).for_commits(group)
    part(Offsets).commit(group, {("t", 0): Committed(1, -1, "", of.clock.now(), topic.id, expires)})  # type: ignore[attr-defined]


def test_offsets_that_nobody_uses_expire_and_then_the_group() -> None:
    clock = FakeClock()
    one = cluster(clock)
    commit(one, "g")
    clock.go_on(6 * DAY)
    assert one.part(Groups).get("g") is not None
    clock.go_on(DAY)
    assert one.part(Groups).get("g") is None
    assert not one.part(Offsets).of("g")


def test_offsets_that_a_client_wants_for_a_time_expire_then() -> None:
    clock = FakeClock()
    one = cluster(clock)
    commit(one, "g", expires=clock.now() + 1000)
    clock.go_on(DAY)
    assert one.part(Groups).get("g") is None


def test_offsets_of_a_topic_that_is_read_do_not_expire() -> None:
    classic = Classic()
    classic.use(cluster(classic.clock))
    [member] = classic.stable(None)
    commit(classic.cluster, "g")
    for _ in range(8 * 24 * 60):
        classic.clock.go_on(60_000 // 7)
        classic.heartbeat(member, 1)
    assert classic.cluster.part(Groups).get("g") is classic.group
    classic.group.leave([(member, None)])
    classic.clock.go_on(7 * DAY - 1)
    assert classic.cluster.part(Groups).get("g") is not None, "counted from when it became empty"
    classic.clock.go_on(DAY)
    assert classic.cluster.part(Groups).get("g") is None


def test_an_empty_group_changes_its_kind() -> None:
    consumers = Consumers()
    commit(consumers.cluster, "g")
    consumers.join("a")
    assert consumers.group.type == "consumer"
    assert consumers.cluster.part(Offsets).of("g"), "its offsets stay"
    consumers.consumer_heartbeat("a", -1)
    assert isinstance(consumers.groups.classic("g"), ClassicGroup)


def test_groups_are_bounded_and_those_without_anything_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_GROUPS", 2)
    one = cluster(FakeClock())
    groups = one.part(Groups)
    groups.classic("empty")
    commit(one, "g")
    commit(one, "h")
    assert {group.id for group in groups} == {"g", "h"}
    with pytest.raises(Refused) as refused:
        groups.classic("i")
    assert refused.value.error is Error.GROUP_MAX_SIZE_REACHED


def test_what_members_bring_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_BYTES", 10_000)
    classic = Classic()
    classic.groups.check_capacity(8_000)
    classic.join(protocols={"range": bytes(8_000)})
    with pytest.raises(Refused) as refused:
        classic.groups.check_capacity(8_000)
    assert refused.value.error is Error.GROUP_MAX_SIZE_REACHED
    classic.group.leave([(next(iter(classic.group.members)), None)])
    classic.groups.check_capacity(8_000)
