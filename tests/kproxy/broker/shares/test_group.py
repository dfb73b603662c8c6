from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.assignors import Subscriber
from kproxy.broker.groups.groups import Groups
from kproxy.broker.groups.heartbeat import ConsumerHeartbeat
from kproxy.broker.shares.assignor import assign_simple
from kproxy.broker.shares.group import LEAVING, ShareGroup, ShareHeartbeat
from kproxy.broker.shares.states import ShareStates
from kproxy.broker.topics import Topics
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.journals import InMemoryJournal, cluster


class ShareGroupHarness:
    """The group ``g`` and the topic ``t`` of four partitions; members are their ids."""

    def __init__(self, **configs: str) -> None:
        self.clock = FakeClock()
        self.journal = InMemoryJournal()
        self._configs = configs
        self.restart()

    def restart(self) -> None:
        """Restore the stored state in a new cluster."""
        self.cluster = cluster(self.clock, self.journal, **self._configs)
        self.groups = self.cluster.part(Groups)

    @property
    def group(self) -> ShareGroup:
        """The group, created if it does not exist."""
        return self.groups.share("g", create=True)

    def heartbeat(self, member: str, epoch: int, topics: tuple[str, ...] | None = None) -> Mapping[str, Any]:
        """Send a heartbeat; return the response."""
        named = None if topics is None else frozenset(topics)
        return self.group.heartbeat(ShareHeartbeat(member, epoch, "client", "/127.0.0.1", None, named))

    def join(self, member: str, *topics: str) -> Mapping[str, Any]:
        """Send the first heartbeat; subscribe to ``t`` by default."""
        return self.heartbeat(member, 0, topics or ("t",))

    def error(self, member: str, epoch: int) -> Error:
        """Send a heartbeat that is refused; return the error."""
        with pytest.raises(ApiError) as refused:
            self.heartbeat(member, epoch)
        return refused.value.error


def assigned_partitions(answer: Mapping[str, Any]) -> list[list[int]]:
    return [topic["partitions"] for topic in answer["assignment"]["topic_partitions"]]


def test_first_member_gets_all_partitions() -> None:
    sharers = ShareGroupHarness()
    response = sharers.join("a")
    assert (response["member_epoch"], response["heartbeat_interval_ms"]) == (2, 5000)
    assert assigned_partitions(response) == [[0, 1, 2, 3]]
    assert "assignment" not in sharers.heartbeat("a", 2)
    assert sharers.group.state == "Stable"
    assert len(sharers.cluster.part(ShareStates).of("g")) == 4


def test_two_members_get_half_of_the_partitions_each() -> None:
    sharers = ShareGroupHarness()
    sharers.join("a")
    [second] = assigned_partitions(sharers.join("b"))
    response = sharers.heartbeat("a", 2)
    assert response["member_epoch"] == 3
    assert sorted(second + assigned_partitions(response)[0]) == [0, 1, 2, 3]


def test_rejects_wrong_member_epochs() -> None:
    sharers = ShareGroupHarness()
    sharers.join("a")
    sharers.join("b")
    sharers.heartbeat("a", 2)
    assert sharers.heartbeat("a", 2)["member_epoch"] == 3, "the answer may have been lost"
    assert sharers.error("a", 1) is Error.FENCED_MEMBER_EPOCH
    assert sharers.error("a", 4) is Error.FENCED_MEMBER_EPOCH
    assert sharers.error("c", 1) is Error.UNKNOWN_MEMBER_ID
    assert sharers.join("a")["member_epoch"] == 3


def test_partitions_of_a_member_that_leaves_are_reassigned() -> None:
    sharers = ShareGroupHarness()
    sharers.join("a")
    sharers.join("b")
    sharers.heartbeat("a", 2)
    assert sharers.heartbeat("b", LEAVING) == {"member_id": "b", "member_epoch": LEAVING}
    response = sharers.heartbeat("a", 3)
    assert (response["member_epoch"], assigned_partitions(response)) == (4, [[0, 1, 2, 3]])
    assert sharers.error("b", LEAVING) is Error.UNKNOWN_MEMBER_ID
    sharers.heartbeat("a", LEAVING)
    assert sharers.group.state == "Empty"


def test_removes_a_silent_member_after_the_session_timeout() -> None:
    sharers = ShareGroupHarness()
    sharers.join("a")
    sharers.clock.advance(40_000)
    sharers.heartbeat("a", 2)
    sharers.clock.advance(44_999)
    assert sharers.group.members
    sharers.clock.advance(2)
    assert sharers.error("a", 2) is Error.UNKNOWN_MEMBER_ID


def test_assigns_a_subscribed_topic_when_it_is_created() -> None:
    sharers = ShareGroupHarness()
    assert assigned_partitions(sharers.join("a", "later")) == []
    sharers.cluster.part(Topics).create("later", [[1]] * 2)
    response = sharers.heartbeat("a", 2)
    assert (response["member_epoch"], assigned_partitions(response)) == (3, [[0, 1]])


def test_rejects_a_member_above_the_group_max_size() -> None:
    sharers = ShareGroupHarness(group_share_max_size="2")
    sharers.join("a")
    sharers.join("b")
    with pytest.raises(ApiError) as refused:
        sharers.join("c")
    assert refused.value.error is Error.GROUP_MAX_SIZE_REACHED
    sharers.join("a")


def test_share_group_cannot_become_a_different_type() -> None:
    sharers = ShareGroupHarness()
    sharers.join("a")
    for empty in (False, True):
        if empty:
            sharers.heartbeat("a", LEAVING)
        with pytest.raises(ApiError) as refused:
            sharers.groups.classic("g")
        assert refused.value.error is Error.INCONSISTENT_GROUP_PROTOCOL
        with pytest.raises(ApiError) as refused:
            sharers.groups.consumer_heartbeat("g", ConsumerHeartbeat("b", 0, "client", "/127.0.0.1"))
        assert refused.value.error is Error.GROUP_ID_NOT_FOUND
    sharers.groups.classic("c")
    with pytest.raises(ApiError, match="not a share group"):
        sharers.groups.share("c", create=True)


def test_group_survives_a_restart_and_silent_members_time_out() -> None:
    sharers = ShareGroupHarness()
    sharers.join("a")
    sharers.join("b")
    sharers.restart()
    assert sharers.heartbeat("b", 3)["member_epoch"] == 3
    assert len(sharers.cluster.part(ShareStates).of("g")) == 4
    sharers.clock.advance(45_001)
    assert sharers.group.is_empty
    sharers.clock.advance(30 * 24 * 3_600_000)
    assert [group.id for group in sharers.groups] == ["g"], "it is not forgotten in time"


def test_deleting_a_group_deletes_its_offsets() -> None:
    sharers = ShareGroupHarness()
    sharers.join("a")
    with pytest.raises(ApiError) as refused:
        sharers.group.check_deletion()
    assert refused.value.error is Error.NON_EMPTY_GROUP
    sharers.heartbeat("a", LEAVING)
    sharers.groups.delete(sharers.group)
    assert not sharers.cluster.part(ShareStates).of("g")
    assert sharers.journal.tables["share states"] == {}


@pytest.mark.parametrize("members", range(1, 8))
@pytest.mark.parametrize("partitions", range(1, 6))
def test_every_member_and_every_partition_is_assigned_evenly(members: int, partitions: int) -> None:
    target: dict[str, frozenset[tuple[str, int]]] = {}
    for count in (members, members + 1, members):  # one comes and goes
        subscribers = [
            Subscriber(str(index), None, frozenset("t"), target.get(str(index), frozenset())) for index in range(count)
        ]
        target = assign_simple(subscribers, {"t": partitions})
        loads = [len(parts) for parts in target.values()]
        assert {part for parts in target.values() for part in parts} == {("t", index) for index in range(partitions)}
        assert min(loads) >= 1
        assert max(loads) - min(loads) <= 1


def test_members_get_only_partitions_of_their_topics() -> None:
    subscribers = [
        Subscriber("a", None, frozenset("t"), frozenset()),
        Subscriber("b", None, frozenset("tu"), frozenset()),
        Subscriber("c", None, frozenset(), frozenset()),
    ]
    target = assign_simple(subscribers, {"t": 2, "u": 1})
    assert target == {"a": {("t", 0)}, "b": {("t", 1), ("u", 0)}, "c": frozenset()}
