"""Groups whose members change from the classic protocol to the new one, or back, one by one."""

from __future__ import annotations

import pytest

from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.consumer import ConsumerGroup
from kproxy.broker.groups.consumer_member import LEAVING
from kproxy.broker.groups.heartbeat import ConsumerHeartbeat
from kproxy.broker.groups.subscriptions import read_assignment, write_assignment
from tests.kproxy.broker.groups.classic_group import RANGE, Classic, Waiting
from tests.kproxy.broker.groups.journals import InMemory, cluster

ALL = write_assignment({"t": [0, 1, 2, 3]}, 0)


class Migrating(Classic):
    """A group with a classic member that has all partitions of ``t``."""

    def __init__(self, **configs: str) -> None:
        super().__init__(**configs)
        self.old = self.join().member_id
        self.sync(self.old, 1, {self.old: ALL})

    def consumer_heartbeat(self, member: str, epoch: int, owned: frozenset[tuple[str, int]] = frozenset()) -> int:
        """A heartbeat in the new protocol; the epoch that it is answered."""
        beat = ConsumerHeartbeat(
            member, epoch, "new", "/127.0.0.1", rebalance_timeout_ms=20_000, topics=frozenset({"t"}), owned=owned
        )
        answer = self.groups.consumer_heartbeat("g", beat)
        self.now()
        return int(answer["member_epoch"])

    def now(self) -> ClassicGroup | ConsumerGroup:
        """The group as it is now."""
        found = self.groups.find("g")
        assert isinstance(found, ClassicGroup | ConsumerGroup)
        self.group = found  # type: ignore[assignment]
        return found

    def parts(self, synced: Waiting) -> list[int]:
        """The partitions of an assignment."""
        found = read_assignment(synced.body["assignment"])
        assert found is not None
        return [index for topic in found["assigned_partitions"] for index in topic["partitions"]]

    def mixed(self) -> int:
        """Have a member of the new protocol, which has its part; the epoch."""
        epoch = self.consumer_heartbeat("new", 0)
        assert self.join(self.old).body["generation_id"] == epoch, "who joins eagerly has given up everything"
        assert len(self.parts(self.sync(self.old, epoch))) == 2
        return self.consumer_heartbeat("new", epoch)


def _subscription(owned: list[int]) -> bytes:
    """To ``t``, in version 1, of which it has these."""
    parts = len(owned).to_bytes(4, "big") + b"".join(each.to_bytes(4, "big") for each in owned)
    return b"\x00\x01" + RANGE["range"][2:9] + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x01\x00\x01t" + parts


def test_a_classic_group_becomes_a_consumer_group_when_a_new_client_joins() -> None:
    group = Migrating()
    assert group.consumer_heartbeat("new", 0) == 2
    consumer = group.now()
    assert isinstance(consumer, ConsumerGroup)
    assert [member["member_type"] for member in consumer.described()["members"]] == [0, 1]
    assert group.heartbeat(group.old, 1) is Error.REBALANCE_IN_PROGRESS
    assert group.heartbeat("new", 2) is Error.UNKNOWN_MEMBER_ID, "it does not speak that protocol"


def test_members_of_both_protocols_share_the_partitions() -> None:
    group = Migrating()
    epoch = group.mixed()
    assert group.heartbeat(group.old, epoch) is Error.NONE
    consumer = group.now()
    assert isinstance(consumer, ConsumerGroup)
    assert {len(member.assigned) for member in consumer.members.values()} == {2}
    assert consumer.state == "Stable"


def test_a_cooperative_member_gives_up_before_others_get() -> None:
    group = Migrating()
    epoch = group.consumer_heartbeat("new", 0)
    again = group.join(group.old, protocols={"range": _subscription([0, 1, 2, 3])})
    assert again.body["generation_id"] == 1
    kept = group.parts(group.sync(group.old, 1))
    assert len(kept) == 2
    group.consumer_heartbeat("new", epoch)
    consumer = group.now()
    assert isinstance(consumer, ConsumerGroup)
    assert not consumer.members["new"].assigned
    assert group.heartbeat(group.old, 1) is Error.REBALANCE_IN_PROGRESS
    again = group.join(group.old, protocols={"range": _subscription(kept)})
    assert again.body["generation_id"] == epoch
    group.consumer_heartbeat("new", epoch)
    assert len(consumer.members["new"].assigned) == 2


def test_a_mixed_group_goes_on_after_a_restart() -> None:
    group, journal = Migrating(), InMemory()
    group.use(cluster(group.clock, journal))
    group.old = group.join().member_id
    group.sync(group.old, 1, {group.old: ALL})
    epoch = group.mixed()
    group.use(cluster(group.clock, journal))
    assert isinstance(group.now(), ConsumerGroup)
    assert group.heartbeat(group.old, epoch) is Error.NONE


def test_the_last_new_client_leaves_a_classic_group_behind() -> None:
    group = Migrating()
    group.mixed()
    group.consumer_heartbeat("new", LEAVING)
    assert isinstance(group.now(), ClassicGroup)
    assert group.group.state == "PreparingRebalance"
    again = group.join(group.old)
    assert again.body["leader"] == group.old
    assert len(again.body["members"]) == 1


def test_a_mixed_group_stays_one_where_there_is_no_way_back() -> None:
    group = Migrating(group_consumer_migration_policy="upgrade")
    group.mixed()
    group.consumer_heartbeat("new", LEAVING)
    assert isinstance(group.now(), ConsumerGroup)


def test_a_classic_member_of_a_mixed_group_leaves_or_falls_silent() -> None:
    group = Migrating()
    group.mixed()
    consumer = group.now()
    assert consumer.leave([(group.old, None)]) == [Error.NONE]
    assert list(consumer.members) == ["new"]
    other = Migrating()
    other.mixed()
    other.clock.go_on(10_001)  # the session timeout that it asked for
    assert list(other.now().members) == ["new"]


def test_a_classic_member_that_does_not_join_again_in_time_is_out() -> None:
    group = Migrating()
    group.consumer_heartbeat("new", 0)
    for _ in range(5):
        group.heartbeat(group.old, 1)
        group.clock.go_on(7_000)
    assert list(group.now().members) == ["new"]


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"group_consumer_migration_policy": "disabled"}, "online upgrade is disabled"),
        ({"group_consumer_migration_policy": "downgrade"}, "online upgrade is disabled"),
        ({"group_consumer_max_size": "0"}, "exceeds the consumer group maximum size"),
    ],
)
def test_a_classic_group_that_cannot_become_a_consumer_group(configs: dict[str, str], why: str) -> None:
    group = Migrating(**configs)
    with pytest.raises(Refused, match=why) as refused:
        group.consumer_heartbeat("new", 0)
    assert refused.value.error is Error.GROUP_ID_NOT_FOUND
    assert isinstance(group.now(), ClassicGroup)
    assert group.heartbeat(group.old, 1) is Error.NONE


@pytest.mark.parametrize(
    ("assignment", "why"),
    [(b"\xff", "malformed"), (ALL[:-4] + b"\x00\x00\x00\x01x", "unsupported custom assignor")],
)
def test_assignments_that_cannot_be_taken_over(assignment: bytes, why: str) -> None:
    classic = Classic()
    member = classic.join().member_id
    classic.sync(member, 1, {member: assignment})
    beat = ConsumerHeartbeat(
        "new", 0, "new", "/127.0.0.1", rebalance_timeout_ms=1, topics=frozenset({"t"}), owned=frozenset()
    )
    with pytest.raises(Refused, match=why):
        classic.groups.consumer_heartbeat("g", beat)


def test_a_classic_member_joins_a_consumer_group() -> None:
    group = Migrating()
    epoch = group.mixed()
    told = group.join(learns_id=True)
    assert told.error is Error.MEMBER_ID_REQUIRED
    joined = group.join(told.member_id)
    assert joined.body["generation_id"] == epoch + 1
    assert group.parts(group.sync(told.member_id, epoch + 1)) == [], "others have yet to give up some"
    assert group.join(protocol_type="connect").error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert group.join(protocols={"sticky": b""}).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert group.join(protocols={"range": b"\xff"}).error is Error.UNKNOWN_SERVER_ERROR


def test_what_classic_members_of_a_mixed_group_are_refused_with() -> None:
    group = Migrating()
    epoch = group.mixed()
    assert group.heartbeat(group.old, epoch + 1) is Error.ILLEGAL_GENERATION
    assert group.sync(group.old, epoch, protocol=("connect", "range")).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert group.sync(group.old, epoch, protocol=("consumer", "sticky")).error is Error.INCONSISTENT_GROUP_PROTOCOL
    with pytest.raises(Refused) as refused:
        group.now().check_commit(group.old, None, epoch + 1, transactional=False, version=8)
    assert refused.value.error is Error.ILLEGAL_GENERATION
    group.now().check_commit(group.old, None, epoch, transactional=False, version=8)


def test_a_static_member_is_replaced_by_its_classic_self() -> None:
    group = Migrating()
    group.mixed()
    consumer = group.now()
    assert isinstance(consumer, ConsumerGroup)
    consumer.members["new"].instance_id = "one"
    consumer._static["one"] = "new"
    joined = group.join(instance="one")
    assert isinstance(group.now(), ClassicGroup), "nobody speaks the new protocol any more"
    assert group.group.state == "Stable"
    synced = group.sync(joined.member_id, int(joined.body["generation_id"]), instance="one")
    assert len(group.parts(synced)) == 2
