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
from tests.kproxy.broker.groups.journals import InMemoryJournal, make_cluster


class ShareGroupHarness:
    """The group ``g`` and the topic ``t`` with four partitions. Members are given by their ids."""

    def __init__(self, **configs: str) -> None:
        self.clock = FakeClock()
        self.journal = InMemoryJournal()
        self._configs = configs
        self.restart()

    def restart(self) -> None:
        """Restore the stored state in a new cluster."""
        self.cluster = make_cluster(self.clock, self.journal, **self._configs)
        self.groups = self.cluster.part(Groups)

    @property
    def group(self) -> ShareGroup:
        """The group, created if it does not exist."""
        return self.groups.share_group("g", create=True)

    def heartbeat(self, member: str, epoch: int, topics: tuple[str, ...] | None = None) -> Mapping[str, Any]:
        """Send a heartbeat; return the response."""
        topic_names = None if topics is None else frozenset(topics)
        return self.group.heartbeat(ShareHeartbeat(member, epoch, "client", "/127.0.0.1", None, topic_names))

    def join(self, member: str, *topics: str) -> Mapping[str, Any]:
        """Send the first heartbeat; subscribe to ``t`` by default."""
        return self.heartbeat(member, 0, topics or ("t",))

    def error(self, member: str, epoch: int) -> Error:
        """Send a heartbeat that is refused; return the error."""
        with pytest.raises(ApiError) as refused:
            self.heartbeat(member, epoch)
        return refused.value.error


def assigned_partitions(response: Mapping[str, Any]) -> list[list[int]]:
    return [topic["partitions"] for topic in response["assignment"]["topic_partitions"]]


def test_first_member_gets_all_partitions() -> None:
    harness = ShareGroupHarness()
    response = harness.join("a")
    assert (response["member_epoch"], response["heartbeat_interval_ms"]) == (2, 5000)
    assert assigned_partitions(response) == [[0, 1, 2, 3]]
    assert "assignment" not in harness.heartbeat("a", 2)
    assert harness.group.state == "Stable"
    assert len(harness.cluster.part(ShareStates).for_group("g")) == 4


def test_each_of_two_members_gets_half_of_the_partitions() -> None:
    harness = ShareGroupHarness()
    harness.join("a")
    [second] = assigned_partitions(harness.join("b"))
    response = harness.heartbeat("a", 2)
    assert response["member_epoch"] == 3
    assert sorted(second + assigned_partitions(response)[0]) == [0, 1, 2, 3]


def test_rejects_wrong_member_epochs() -> None:
    harness = ShareGroupHarness()
    harness.join("a")
    harness.join("b")
    harness.heartbeat("a", 2)
    assert harness.heartbeat("a", 2)["member_epoch"] == 3, "the response may have been lost"
    assert harness.error("a", 1) is Error.FENCED_MEMBER_EPOCH
    assert harness.error("a", 4) is Error.FENCED_MEMBER_EPOCH
    assert harness.error("c", 1) is Error.UNKNOWN_MEMBER_ID
    assert harness.join("a")["member_epoch"] == 3


def test_partitions_of_a_member_that_leaves_are_reassigned() -> None:
    harness = ShareGroupHarness()
    harness.join("a")
    harness.join("b")
    harness.heartbeat("a", 2)
    assert harness.heartbeat("b", LEAVING) == {"member_id": "b", "member_epoch": LEAVING}
    response = harness.heartbeat("a", 3)
    assert (response["member_epoch"], assigned_partitions(response)) == (4, [[0, 1, 2, 3]])
    assert harness.error("b", LEAVING) is Error.UNKNOWN_MEMBER_ID
    harness.heartbeat("a", LEAVING)
    assert harness.group.state == "Empty"


def test_removes_a_silent_member_after_the_session_timeout() -> None:
    harness = ShareGroupHarness()
    harness.join("a")
    harness.clock.advance(40_000)
    harness.heartbeat("a", 2)
    harness.clock.advance(44_999)
    assert harness.group.members
    harness.clock.advance(2)
    assert harness.error("a", 2) is Error.UNKNOWN_MEMBER_ID


def test_assigns_a_subscribed_topic_when_it_is_created() -> None:
    harness = ShareGroupHarness()
    assert assigned_partitions(harness.join("a", "later")) == []
    harness.cluster.part(Topics).create("later", [[1]] * 2)
    response = harness.heartbeat("a", 2)
    assert (response["member_epoch"], assigned_partitions(response)) == (3, [[0, 1]])


def test_rejects_a_member_above_the_group_max_size() -> None:
    harness = ShareGroupHarness(group_share_max_size="2")
    harness.join("a")
    harness.join("b")
    with pytest.raises(ApiError) as refused:
        harness.join("c")
    assert refused.value.error is Error.GROUP_MAX_SIZE_REACHED
    harness.join("a")


def test_share_group_cannot_become_a_different_type() -> None:
    harness = ShareGroupHarness()
    harness.join("a")
    for is_empty in (False, True):
        if is_empty:
            harness.heartbeat("a", LEAVING)
        with pytest.raises(ApiError) as refused:
            harness.groups.classic_group("g")
        assert refused.value.error is Error.INCONSISTENT_GROUP_PROTOCOL
        with pytest.raises(ApiError) as refused:
            harness.groups.consumer_heartbeat("g", ConsumerHeartbeat("b", 0, "client", "/127.0.0.1"))
        assert refused.value.error is Error.GROUP_ID_NOT_FOUND
    harness.groups.classic_group("c")
    with pytest.raises(ApiError, match="not a share group"):
        harness.groups.share_group("c", create=True)


def test_group_survives_a_restart_and_silent_members_time_out() -> None:
    harness = ShareGroupHarness()
    harness.join("a")
    harness.join("b")
    harness.restart()
    assert harness.heartbeat("b", 3)["member_epoch"] == 3
    assert len(harness.cluster.part(ShareStates).for_group("g")) == 4
    harness.clock.advance(45_001)
    assert harness.group.is_empty
    harness.clock.advance(30 * 24 * 3_600_000)
    assert [group.id for group in harness.groups] == ["g"], "share groups do not expire"


def test_deleting_a_group_deletes_its_offsets() -> None:
    harness = ShareGroupHarness()
    harness.join("a")
    with pytest.raises(ApiError) as refused:
        harness.group.check_deletion()
    assert refused.value.error is Error.NON_EMPTY_GROUP
    harness.heartbeat("a", LEAVING)
    harness.groups.delete(harness.group)
    assert not harness.cluster.part(ShareStates).for_group("g")
    assert harness.journal.tables["share states"] == {}


@pytest.mark.parametrize("members", range(1, 8))
@pytest.mark.parametrize("partitions", range(1, 6))
def test_members_and_partitions_are_assigned_evenly(members: int, partitions: int) -> None:
    target: dict[str, frozenset[tuple[str, int]]] = {}
    for count in (members, members + 1, members):  # one member joins and leaves again
        subscribers = [
            Subscriber(str(index), None, frozenset("t"), target.get(str(index), frozenset())) for index in range(count)
        ]
        target = assign_simple(subscribers, {"t": partitions})
        loads = [len(assigned) for assigned in target.values()]
        assert {partition for assigned in target.values() for partition in assigned} == {
            ("t", index) for index in range(partitions)
        }
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
