"""Groups whose members change from the classic protocol to the consumer protocol, or back, one by one."""

from __future__ import annotations

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.consumer import ConsumerGroup
from kproxy.broker.groups.consumer_member import LEAVING
from kproxy.broker.groups.heartbeat import ConsumerHeartbeat
from kproxy.broker.groups.subscriptions import read_assignment, write_assignment
from tests.kproxy.broker.groups.classic_group import RANGE, ClassicGroupHarness, PendingResponse
from tests.kproxy.broker.groups.journals import InMemoryJournal, make_cluster

ALL = write_assignment({"t": [0, 1, 2, 3]}, 0)


class MigratingGroup(ClassicGroupHarness):
    """A group with a classic member that has all partitions of ``t``."""

    def __init__(self, **configs: str) -> None:
        super().__init__(**configs)
        self.classic_member = self.join().member_id
        self.sync(self.classic_member, 1, {self.classic_member: ALL})

    def consumer_heartbeat(self, member: str, epoch: int, owned: frozenset[tuple[str, int]] = frozenset()) -> int:
        """Send a heartbeat of the consumer protocol; return the epoch in the response."""
        heartbeat = ConsumerHeartbeat(
            member, epoch, "new", "/127.0.0.1", rebalance_timeout_ms=20_000, topics=frozenset({"t"}), owned=owned
        )
        response = self.groups.consumer_heartbeat("g", heartbeat)
        self.update_group()
        return int(response["member_epoch"])

    def update_group(self) -> ClassicGroup | ConsumerGroup:
        """Update `group` after a change of its type; return it."""
        group = self.groups.find("g")
        assert isinstance(group, ClassicGroup | ConsumerGroup)
        self.group = group  # type: ignore[assignment]
        return group

    def partitions(self, synced: PendingResponse) -> list[int]:
        """Return the partitions of an assignment."""
        assignment = read_assignment(synced.body["assignment"])
        assert assignment is not None
        return [index for topic in assignment["assigned_partitions"] for index in topic["partitions"]]

    def become_mixed(self) -> int:
        """Add a member that uses the consumer protocol and gets half of the partitions; return the epoch."""
        epoch = self.consumer_heartbeat("new", 0)
        assert self.join(self.classic_member).body["generation_id"] == epoch, (
            "a member that joins eagerly has given up everything"
        )
        assert len(self.partitions(self.sync(self.classic_member, epoch))) == 2
        return self.consumer_heartbeat("new", epoch)


def _subscription(owned: list[int]) -> bytes:
    """Return a subscription to ``t``, version 1, that owns these partitions."""
    partitions = len(owned).to_bytes(4, "big") + b"".join(index.to_bytes(4, "big") for index in owned)
    return b"\x00\x01" + RANGE["range"][2:9] + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x01\x00\x01t" + partitions


def test_classic_group_is_upgraded_when_a_consumer_protocol_member_joins() -> None:
    group = MigratingGroup()
    assert group.consumer_heartbeat("new", 0) == 2
    consumer = group.update_group()
    assert isinstance(consumer, ConsumerGroup)
    assert [member["member_type"] for member in consumer.describe()["members"]] == [0, 1]
    assert group.heartbeat(group.classic_member, 1) is Error.REBALANCE_IN_PROGRESS
    assert group.heartbeat("new", 2) is Error.UNKNOWN_MEMBER_ID, "it uses the other protocol"


def test_members_of_both_protocols_divide_the_partitions() -> None:
    group = MigratingGroup()
    epoch = group.become_mixed()
    assert group.heartbeat(group.classic_member, epoch) is Error.NONE
    consumer = group.update_group()
    assert isinstance(consumer, ConsumerGroup)
    assert {len(member.assigned) for member in consumer.members.values()} == {2}
    assert consumer.state == "Stable"


def test_cooperative_member_revokes_before_others_are_assigned() -> None:
    group = MigratingGroup()
    epoch = group.consumer_heartbeat("new", 0)
    rejoin_response = group.join(group.classic_member, protocols={"range": _subscription([0, 1, 2, 3])})
    assert rejoin_response.body["generation_id"] == 1
    kept_partitions = group.partitions(group.sync(group.classic_member, 1))
    assert len(kept_partitions) == 2
    group.consumer_heartbeat("new", epoch)
    consumer = group.update_group()
    assert isinstance(consumer, ConsumerGroup)
    assert not consumer.members["new"].assigned
    assert group.heartbeat(group.classic_member, 1) is Error.REBALANCE_IN_PROGRESS
    rejoin_response = group.join(group.classic_member, protocols={"range": _subscription(kept_partitions)})
    assert rejoin_response.body["generation_id"] == epoch
    group.consumer_heartbeat("new", epoch)
    assert len(consumer.members["new"].assigned) == 2


def test_mixed_group_survives_a_restart() -> None:
    group, journal = MigratingGroup(), InMemoryJournal()
    group.move_to(make_cluster(group.clock, journal))
    group.classic_member = group.join().member_id
    group.sync(group.classic_member, 1, {group.classic_member: ALL})
    epoch = group.become_mixed()
    group.move_to(make_cluster(group.clock, journal))
    assert isinstance(group.update_group(), ConsumerGroup)
    assert group.heartbeat(group.classic_member, epoch) is Error.NONE


def test_group_is_downgraded_when_the_last_consumer_protocol_member_leaves() -> None:
    group = MigratingGroup()
    group.become_mixed()
    group.consumer_heartbeat("new", LEAVING)
    assert isinstance(group.update_group(), ClassicGroup)
    assert group.group.state == "PreparingRebalance"
    rejoin_response = group.join(group.classic_member)
    assert rejoin_response.body["leader"] == group.classic_member
    assert len(rejoin_response.body["members"]) == 1


def test_mixed_group_is_not_downgraded_if_the_policy_forbids_it() -> None:
    group = MigratingGroup(group_consumer_migration_policy="upgrade")
    group.become_mixed()
    group.consumer_heartbeat("new", LEAVING)
    assert isinstance(group.update_group(), ConsumerGroup)


def test_mixed_group_removes_a_classic_member_that_leaves_or_times_out() -> None:
    group = MigratingGroup()
    group.become_mixed()
    consumer = group.update_group()
    assert consumer.leave([(group.classic_member, None)]) == [Error.NONE]
    assert list(consumer.members) == ["new"]
    other = MigratingGroup()
    other.become_mixed()
    other.clock.advance(10_001)  # the session timeout that it requested
    assert list(other.update_group().members) == ["new"]


def test_removes_a_classic_member_that_misses_the_rebalance_timeout() -> None:
    group = MigratingGroup()
    group.consumer_heartbeat("new", 0)
    for _ in range(5):
        group.heartbeat(group.classic_member, 1)
        group.clock.advance(7_000)
    assert list(group.update_group().members) == ["new"]


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"group_consumer_migration_policy": "disabled"}, "online upgrade is disabled"),
        ({"group_consumer_migration_policy": "downgrade"}, "online upgrade is disabled"),
        ({"group_consumer_max_size": "0"}, "exceeds the consumer group maximum size"),
    ],
)
def test_rejects_an_upgrade_that_the_configs_forbid(configs: dict[str, str], message: str) -> None:
    group = MigratingGroup(**configs)
    with pytest.raises(ApiError, match=message) as refused:
        group.consumer_heartbeat("new", 0)
    assert refused.value.error is Error.GROUP_ID_NOT_FOUND
    assert isinstance(group.update_group(), ClassicGroup)
    assert group.heartbeat(group.classic_member, 1) is Error.NONE


@pytest.mark.parametrize(
    ("assignment", "message"),
    [(b"\xff", "malformed"), (ALL[:-4] + b"\x00\x00\x00\x01x", "unsupported custom assignor")],
)
def test_rejects_an_upgrade_with_unreadable_or_custom_assignments(assignment: bytes, message: str) -> None:
    classic = ClassicGroupHarness()
    member = classic.join().member_id
    classic.sync(member, 1, {member: assignment})
    heartbeat = ConsumerHeartbeat(
        "new", 0, "new", "/127.0.0.1", rebalance_timeout_ms=1, topics=frozenset({"t"}), owned=frozenset()
    )
    with pytest.raises(ApiError, match=message):
        classic.groups.consumer_heartbeat("g", heartbeat)


def test_classic_member_joins_a_consumer_group() -> None:
    group = MigratingGroup()
    epoch = group.become_mixed()
    response = group.join(learns_id=True)
    assert response.error is Error.MEMBER_ID_REQUIRED
    joined = group.join(response.member_id)
    assert joined.body["generation_id"] == epoch + 1
    assert group.partitions(group.sync(response.member_id, epoch + 1)) == [], (
        "other members have yet to give up partitions"
    )
    assert group.join(protocol_type="connect").error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert group.join(protocols={"sticky": b""}).error is Error.INCONSISTENT_GROUP_PROTOCOL
    assert group.join(protocols={"range": b"\xff"}).error is Error.UNKNOWN_SERVER_ERROR


def test_mixed_group_refuses_classic_members_with_classic_errors() -> None:
    group = MigratingGroup()
    epoch = group.become_mixed()
    assert group.heartbeat(group.classic_member, epoch + 1) is Error.ILLEGAL_GENERATION
    assert (
        group.sync(group.classic_member, epoch, protocol=("connect", "range")).error
        is Error.INCONSISTENT_GROUP_PROTOCOL
    )
    assert (
        group.sync(group.classic_member, epoch, protocol=("consumer", "sticky")).error
        is Error.INCONSISTENT_GROUP_PROTOCOL
    )
    with pytest.raises(ApiError) as refused:
        group.update_group().check_commit(group.classic_member, None, epoch + 1, transactional=False, version=8)
    assert refused.value.error is Error.ILLEGAL_GENERATION
    group.update_group().check_commit(group.classic_member, None, epoch, transactional=False, version=8)


def test_classic_client_replaces_a_static_member_with_the_same_instance_id() -> None:
    group = MigratingGroup()
    group.become_mixed()
    consumer = group.update_group()
    assert isinstance(consumer, ConsumerGroup)
    consumer.members["new"].instance_id = "one"
    consumer._static["one"] = "new"
    joined = group.join(instance="one")
    assert isinstance(group.update_group(), ClassicGroup), "no member uses the new protocol any more"
    assert group.group.state == "Stable"
    synced = group.sync(joined.member_id, int(joined.body["generation_id"]), instance="one")
    assert len(group.partitions(synced)) == 2
