"""A classic group without a broker, and the responses that its members get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.classic import ClassicGroup
from kproxy.broker.groups.classic_member import JoinRequest
from kproxy.broker.groups.groups import Groups
from tests.kproxy.broker.fake_clock import FakeClock
from tests.kproxy.broker.groups.journals import make_cluster

RANGE = {"range": b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"}  # subscribes to "t"


class ClassicGroupHarness:
    """A classic group and its clock. Times are in ms."""

    def __init__(self, **configs: str) -> None:
        self.clock = FakeClock()
        self.move_to(make_cluster(self.clock, **configs))

    def move_to(self, cluster: Cluster) -> None:
        """Move the group to a different cluster."""
        self.cluster = cluster
        self.groups = cluster.part(Groups)
        self.group: ClassicGroup = self.groups.classic_group("g")

    def join(self, member_id: str = "", instance: str | None = None, **options: Any) -> PendingResponse:
        """Join the group; return the response, which has the error if the group refuses."""
        fields = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "learns_id": False,
        }
        join_request = JoinRequest(member_id, instance, "client", "/127.0.0.1", **{**fields, **options})
        response = PendingResponse()
        try:
            self.group.join(join_request, response.receive)
        except ApiError as refused:
            response.receive({"error_code": refused.error})
        self.clock.advance()
        return response

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol: tuple[str | None, str | None] = (None, None),
    ) -> PendingResponse:
        """Send a SyncGroup request; return the response, which has the error if the group refuses."""
        response = PendingResponse()
        try:
            self.group.sync(member_id, instance, generation, protocol, assignments or {}, response.receive)
        except ApiError as refused:
            response.receive({"error_code": refused.error})
        return response

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> Error:
        """Send a heartbeat; return the error."""
        try:
            self.group.heartbeat(member_id, instance, generation)
        except ApiError as refused:
            return refused.error
        return Error.NONE

    def make_stable(self, *instances: str | None) -> list[str]:
        """Join with these instance ids (None: a dynamic member) and sync; return the member ids, the leader's first."""
        [first, *other_instances] = instances
        leader = self.join(instance=first)
        members = [leader.member_id]
        for instance in other_instances:
            joined = self.join(instance=instance)
            rejoin_responses = [self.join(member, id_) for member, id_ in zip(members, instances, strict=False)]
            members.append(joined.member_id)
            assert not any(response.error for response in rejoin_responses)
        generation = self.group.generation
        for member in reversed(members):
            self.sync(member, generation, {member: member.encode() for member in members})
        assert self.group.state == "Stable"
        return members


class PendingResponse:
    """The response to a request, once it has arrived."""

    def __init__(self) -> None:
        self.bodies: list[Mapping[str, Any]] = []

    def receive(self, body: Mapping[str, Any]) -> None:
        """Receive the response."""
        self.bodies.append(body)

    @property
    def body(self) -> Mapping[str, Any]:
        """The response; there must be exactly one."""
        [body] = self.bodies
        return body

    @property
    def is_pending(self) -> bool:
        """Whether there is no response yet."""
        return not self.bodies

    @property
    def error(self) -> Error:
        return Error(self.body.get("error_code", 0))

    @property
    def member_id(self) -> str:
        return str(self.body["member_id"])
