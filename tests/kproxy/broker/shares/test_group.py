from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups.assignors import Subscriber
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.heartbeat import ConsumerHeartbeat
from kproxy.broker.shares.assignor import simple
from kproxy.broker.shares.group import LEAVING, ShareGroup, ShareHeartbeat
from kproxy.broker.shares.states import ShareStates
from kproxy.broker.topics import Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.journals import InMemory, cluster


class Sharers:
    """The group ``g`` and the topic ``t`` of four partitions; members are their ids."""

    def __init__(self, **configs: str) -> None:
        self.clock = FakeClock()
        self.journal = InMemory()
        self._configs = configs
        self.restart()

    def restart(self) -> None:
        """Go on from what was kept."""
        self.cluster = cluster(self.clock, self.journal, **self._configs)
        self.groups = self.cluster.part(Groups)

    @property
    def group(self) -> ShareGroup:
        """The group, made if it is not there."""
        return self.groups.share("g", create=True)

    def heartbeat(self, member: str, epoch: int, topics: tuple[str, ...] | None = None) -> Mapping[str, Any]:
        """A heartbeat; its answer."""
        named = None if topics is None else frozenset(topics)
        return self.group.heartbeat(ShareHeartbeat(member, epoch, "client", "/127.0.0.1", None, named))

    def join(self, member: str, *topics: str) -> Mapping[str, Any]:
        """The first heartbeat; for ``t`` unless told."""
        return self.heartbeat(member, 0, topics or ("t",))

    def error(self, member: str, epoch: int) -> Error:
        """What a heartbeat is refused with."""
        with pytest.raises(Refused) as refused:
            self.heartbeat(member, epoch)
        return refused.value.error


def given(answer: Mapping[str, Any]) -> list[list[int]]:
    return [topic["partitions"] for topic in answer["assignment"]["topic_partitions"]]


def test_the_first_member_reads_everything() -> None:
    sharers = Sharers()
    answer = sharers.join("a")
    assert (answer["member_epoch"], answer["heartbeat_interval_ms"]) == (2, 5000)
    assert given(answer) == [[0, 1, 2, 3]]
    assert "assignment" not in sharers.heartbeat("a", 2)
    assert sharers.group.state == "Stable"
    assert len(sharers.cluster.part(ShareStates).of("g")) == 4


def test_two_members_have_half_each() -> None:
    sharers = Sharers()
    sharers.join("a")
    [second] = given(sharers.join("b"))
    told = sharers.heartbeat("a", 2)
    assert told["member_epoch"] == 3
    assert sorted(second + given(told)[0]) == [0, 1, 2, 3]


def test_epochs_that_a_member_cannot_have() -> None:
    sharers = Sharers()
    sharers.join("a")
    sharers.join("b")
    sharers.heartbeat("a", 2)
    assert sharers.heartbeat("a", 2)["member_epoch"] == 3, "the answer may have been lost"
    assert sharers.error("a", 1) is Error.FENCED_MEMBER_EPOCH
    assert sharers.error("a", 4) is Error.FENCED_MEMBER_EPOCH
    assert sharers.error("c", 1) is Error.UNKNOWN_MEMBER_ID
    assert sharers.join("a")["member_epoch"] == 3


def test_a_member_leaves() -> None:
    sharers = Sharers()
    sharers.join("a")
    sharers.join("b")
    sharers.heartbeat("a", 2)
    assert sharers.heartbeat("b", LEAVING) == {"member_id": "b", "member_epoch": LEAVING}
    answer = sharers.heartbeat("a", 3)
    assert (answer["member_epoch"], given(answer)) == (4, [[0, 1, 2, 3]])
    assert sharers.error("b", LEAVING) is Error.UNKNOWN_MEMBER_ID
    sharers.heartbeat("a", LEAVING)
    assert sharers.group.state == "Empty"


def test_a_silent_member_is_out() -> None:
    sharers = Sharers()
    sharers.join("a")
    sharers.clock.go_on(40_000)
    sharers.heartbeat("a", 2)
    sharers.clock.go_on(44_999)
    assert sharers.group.members
    sharers.clock.go_on(2)
    assert sharers.error("a", 2) is Error.UNKNOWN_MEMBER_ID


def test_a_topic_that_comes_later() -> None:
    sharers = Sharers()
    assert given(sharers.join("a", "later")) == []
    sharers.cluster.part(Topics).create("later", [[1]] * 2)
    answer = sharers.heartbeat("a", 2)
    assert (answer["member_epoch"], given(answer)) == (3, [[0, 1]])


def test_a_group_has_only_so_many_members() -> None:
    sharers = Sharers(group_share_max_size="2")
    sharers.join("a")
    sharers.join("b")
    with pytest.raises(Refused) as refused:
        sharers.join("c")
    assert refused.value.error is Error.GROUP_MAX_SIZE_REACHED
    sharers.join("a")


def test_a_share_group_is_no_other() -> None:
    sharers = Sharers()
    sharers.join("a")
    for empty in (False, True):
        if empty:
            sharers.heartbeat("a", LEAVING)
        with pytest.raises(Refused) as refused:
            sharers.groups.classic("g")
        assert refused.value.error is Error.INCONSISTENT_GROUP_PROTOCOL
        with pytest.raises(Refused) as refused:
            sharers.groups.consumer_heartbeat("g", ConsumerHeartbeat("b", 0, "client", "/127.0.0.1"))
        assert refused.value.error is Error.GROUP_ID_NOT_FOUND
    sharers.groups.classic("c")
    with pytest.raises(Refused, match="not a share group"):
        sharers.groups.share("c", create=True)


def test_a_group_outlives_a_restart_and_silent_members_do_not() -> None:
    sharers = Sharers()
    sharers.join("a")
    sharers.join("b")
    sharers.restart()
    assert sharers.heartbeat("b", 3)["member_epoch"] == 3
    assert len(sharers.cluster.part(ShareStates).of("g")) == 4
    sharers.clock.go_on(45_001)
    assert sharers.group.is_empty
    sharers.clock.go_on(30 * 24 * 3_600_000)
    assert [group.id for group in sharers.groups] == ["g"], "it is not forgotten in time"


def test_a_deleted_group_has_no_offsets() -> None:
    sharers = Sharers()
    sharers.join("a")
    with pytest.raises(Refused) as refused:
        sharers.group.check_deletion()
    assert refused.value.error is Error.NON_EMPTY_GROUP
    sharers.heartbeat("a", LEAVING)
    sharers.groups.delete(sharers.group)
    assert not sharers.cluster.part(ShareStates).of("g")
    assert sharers.journal.tables["share states"] == {}


@pytest.mark.parametrize("members", range(1, 8))
@pytest.mark.parametrize("partitions", range(1, 6))
def test_all_are_busy_and_all_is_read(members: int, partitions: int) -> None:
    target: dict[str, frozenset[tuple[str, int]]] = {}
    for count in (members, members + 1, members):  # one comes and goes
        subscribers = [
            Subscriber(str(index), None, frozenset("t"), target.get(str(index), frozenset())) for index in range(count)
        ]
        target = simple(subscribers, {"t": partitions})
        loads = [len(parts) for parts in target.values()]
        assert {part for parts in target.values() for part in parts} == {("t", index) for index in range(partitions)}
        assert min(loads) >= 1
        assert max(loads) - min(loads) <= 1


def test_members_read_only_their_topics() -> None:
    subscribers = [
        Subscriber("a", None, frozenset("t"), frozenset()),
        Subscriber("b", None, frozenset("tu"), frozenset()),
        Subscriber("c", None, frozenset(), frozenset()),
    ]
    target = simple(subscribers, {"t": 2, "u": 1})
    assert target == {"a": {("t", 0)}, "b": {("t", 1), ("u", 0)}, "c": frozenset()}
