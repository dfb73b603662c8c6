"""A classic group without a broker, and members that say what they were answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.classic_member import Joining
from kproxy.broker.groups.groups import Groups
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.journals import cluster

RANGE = {"range": b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"}  # subscribes to "t"


class Classic:
    """A group; times in ms."""

    def __init__(self, **configs: str) -> None:
        self.clock = FakeClock()
        self.use(cluster(self.clock, **configs))

    def use(self, made: Cluster) -> None:
        """Have the group in another cluster."""
        self.cluster = made
        self.groups = made.part(Groups)
        self.group: ClassicGroup = self.groups.classic("g")

    def join(self, member_id: str = "", instance: str | None = None, **more: Any) -> Waiting:
        """Join; what it is refused with is its answer."""
        asked = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "learns_id": False,
        }
        joining = Joining(member_id, instance, "client", "/127.0.0.1", **{**asked, **more})
        waiting = Waiting()
        try:
            self.group.join(joining, waiting.take)
        except Refused as refused:
            waiting.take({"error_code": refused.error})
        self.clock.go_on()
        return waiting

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol: tuple[str | None, str | None] = (None, None),
    ) -> Waiting:
        """Sync, likewise."""
        waiting = Waiting()
        try:
            self.group.sync(member_id, instance, generation, protocol, assignments or {}, waiting.take)
        except Refused as refused:
            waiting.take({"error_code": refused.error})
        return waiting

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> Error:
        """Heartbeat; the error."""
        try:
            self.group.heartbeat(member_id, instance, generation)
        except Refused as refused:
            return refused.error
        return Error.NONE

    def stable(self, *instances: str | None) -> list[str]:
        """Members in a stable group, the leader first; None for a dynamic one."""
        [first, *others] = instances
        [leader] = [self.join(instance=first)]
        members = [leader.member_id]
        for instance in others:
            joined = self.join(instance=instance)
            again = [self.join(member, at) for member, at in zip(members, instances, strict=False)]
            members.append(joined.member_id)
            assert not any(each.error for each in again)
        generation = self.group.generation
        for member in reversed(members):
            self.sync(member, generation, {member: member.encode() for member in members})
        assert self.group.state == "Stable"
        return members


class Waiting:
    """The answer to a request, once there is one."""

    def __init__(self) -> None:
        self.answers: list[Mapping[str, Any]] = []

    def take(self, body: Mapping[str, Any]) -> None:
        """Be answered."""
        self.answers.append(body)

    @property
    def body(self) -> Mapping[str, Any]:
        """The one answer."""
        [body] = self.answers
        return body

    @property
    def waits(self) -> bool:
        """Whether there is none yet."""
        return not self.answers

    @property
    def error(self) -> Error:
        return Error(self.body.get("error_code", 0))

    @property
    def member_id(self) -> str:
        return str(self.body["member_id"])
