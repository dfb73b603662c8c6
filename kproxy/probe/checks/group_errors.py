"""The errors about groups that clients rely on: each makes them react differently."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from dissectors.schemas.codes import Error
from kproxy.client.connection import BrokerConnection
from kproxy.probe.check import CheckFailed, check
from kproxy.probe.scratch import expect, find_coordinator, poll_until, scratch_topic, send_when_ready
from kproxy.probe.target import BrokerResponse, Target

_MANAGER = "group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java"
_SERVICE = "group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupCoordinatorService.java"
#: The first versions with static members. The flexible versions after them have the same fields.
_VERSIONS: Final = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "LeaveGroup": 3, "OffsetCommit": 7}


@dataclass(frozen=True, slots=True)
class _Member:
    """The only member of a classic group, in the group's current generation."""

    target: Target
    connection: BrokerConnection
    group: str
    id: str
    generation: int
    instance: str | None

    async def request(self, api: str, **values: object) -> BrokerResponse:
        """Send a request about the group."""
        self.target.version(api, _VERSIONS[api])
        return await self.target.request(self.connection, api, _VERSIONS[api], group_id=self.group, **values)

    async def heartbeat(self, **overrides: object) -> int:
        """Send a heartbeat with some fields overridden, and return the error code."""
        values = {
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        } | overrides
        code: int = (await self.request("Heartbeat", **values)).body["error_code"]
        return code


@check("groups/illegal-generation", _MANAGER, writes=True)
async def check_illegal_generation(target: Target) -> None:
    """Heartbeat and SyncGroup with another generation than the group's return ILLEGAL_GENERATION.

    It makes a member that missed a rebalance give up its partitions and rejoin.
    """
    async with _stable_group(target) as member:
        code = await member.heartbeat(generation_id=member.generation + 7)
        expect(code, Error.ILLEGAL_GENERATION, "Heartbeat with another generation")
        sync_response = await member.request("SyncGroup", generation_id=member.generation + 7, member_id=member.id)
        expect(sync_response.body["error_code"], Error.ILLEGAL_GENERATION, "SyncGroup with another generation")
        expect(await member.heartbeat(), Error.NONE, "Heartbeat with the group's generation")


@check("groups/fenced-commits", _MANAGER, writes=True)
async def check_fenced_commits(target: Target) -> None:
    """OffsetCommit of an old generation returns ILLEGAL_GENERATION, that of a stranger UNKNOWN_MEMBER_ID.

    Otherwise a member that was removed from the group overwrites the offsets of its successor, and records are lost.
    """
    async with scratch_topic(target) as topic, _stable_group(target) as member:
        for generation, member_id, expected in (
            (member.generation + 7, member.id, Error.ILLEGAL_GENERATION),
            (member.generation, "nobody", Error.UNKNOWN_MEMBER_ID),
        ):
            partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
            response = await member.request(
                "OffsetCommit", generation_id_or_member_epoch=generation, member_id=member_id,
                topics=[{"name": topic.name, "partitions": [partition]}],
            )  # fmt: skip
            code = response.body["topics"][0]["partitions"][0]["error_code"]
            expect(code, expected, f"OffsetCommit of generation {generation} by {member_id!r}")


@check("groups/fenced-instance", "KIP-345", _MANAGER, writes=True)
async def check_fenced_instance(target: Target) -> None:
    """A second member with the same group.instance.id replaces the first, which gets FENCED_INSTANCE_ID.

    It makes the first consumer stop. Otherwise, two consumers with the same configuration both read its partitions.
    """
    async with (
        _stable_group(target, instance="kproxy-probe-instance") as member,
        member.target.connection() as connection,
    ):
        join_response = await _join_group(member.target, connection, member.group, "", member.instance)
        expect(join_response.body["error_code"], Error.NONE, "JoinGroup of a known instance")
        if join_response.body["member_id"] == member.id:
            raise join_response.failure("the second member gets the member id of the first")
        expect(await member.heartbeat(), Error.FENCED_INSTANCE_ID, "Heartbeat of the replaced member")


@check("groups/other-protocol", _MANAGER, writes=True)
async def check_other_protocol(target: Target) -> None:
    """JoinGroup with another protocol type, or no common protocol, returns INCONSISTENT_GROUP_PROTOCOL.

    Two applications with one group id get this error, instead of assignments that they cannot read.
    """
    async with _stable_group(target) as member:
        for overrides in ({"protocol_type": "other"}, {"protocols": [{"name": "other", "metadata": b""}]}):
            response = await _join_group(member.target, member.connection, member.group, "", None, **overrides)
            code = response.body["error_code"]
            expect(code, Error.INCONSISTENT_GROUP_PROTOCOL, f"JoinGroup with another {next(iter(overrides))}")


@check("groups/session-timeout", "group.min.session.timeout.ms", _SERVICE, writes=True)
async def check_session_timeout(target: Target) -> None:
    """JoinGroup with a session timeout of 0 returns INVALID_SESSION_TIMEOUT.

    With such a timeout, the member would leave before its first heartbeat, and the others would rebalance each time.
    """
    group = target.new_name("group")
    coordinator = await find_coordinator(target, group)
    async with coordinator.connection() as connection:
        response = await _join_group(coordinator, connection, group, "", None, session_timeout_ms=0)
        expect(response.body["error_code"], Error.INVALID_SESSION_TIMEOUT, "JoinGroup with a session timeout of 0")


@check("groups/non-empty", _MANAGER, writes=True)
async def check_delete_non_empty_group(target: Target) -> None:
    """DeleteGroups of a group with members returns NON_EMPTY_GROUP, and the members stay.

    Otherwise a tool deletes the committed offsets of running consumers.
    """
    async with _stable_group(target) as member:
        code = await _delete_group(member.target, member.connection, member.group)
        expect(code, Error.NON_EMPTY_GROUP, "DeleteGroups of a group with a member")
        expect(await member.heartbeat(), Error.NONE, "Heartbeat after DeleteGroups")


@check("groups/delete-unknown", _MANAGER, writes=True)
async def check_delete_unknown_group(target: Target) -> None:
    """DeleteGroups of an unknown group returns GROUP_ID_NOT_FOUND.

    Cleanup scripts ignore only this error.
    """
    group = target.new_name("group")
    coordinator = await find_coordinator(target, group)
    async with coordinator.connection() as connection:
        code = await poll_until(
            target,
            lambda: _delete_group(coordinator, connection, group),
            lambda code: code != Error.NOT_COORDINATOR,
        )
        expect(code, Error.GROUP_ID_NOT_FOUND, "DeleteGroups of an unknown group")


@asynccontextmanager
async def _stable_group(target: Target, instance: str | None = None) -> AsyncIterator[_Member]:
    """Create a stable group with one member, and delete the group at the end."""
    group = target.new_name("group")
    coordinator = await find_coordinator(target, group)
    async with coordinator.connection() as connection:

        async def join() -> BrokerResponse:
            join_response = await _join_group(coordinator, connection, group, "", instance)
            if join_response.body["error_code"] == Error.MEMBER_ID_REQUIRED:
                join_response = await _join_group(
                    coordinator, connection, group, join_response.body["member_id"], instance
                )
            return join_response

        # As in kproxy.probe.checks.groups, the broker may forget the member id of an empty group.
        response = await poll_until(target, join, lambda answer: answer.body["error_code"] != Error.UNKNOWN_MEMBER_ID)
        expect(response.body["error_code"], Error.NONE, "JoinGroup")
        member = _Member(
            coordinator, connection, group, response.body["member_id"], response.body["generation_id"], instance
        )
        assignment = {"member_id": member.id, "assignment": b"all"}
        sync_response = await member.request("SyncGroup", generation_id=member.generation, member_id=member.id,
                                             group_instance_id=instance, assignments=[assignment])  # fmt: skip
        expect(sync_response.body["error_code"], Error.NONE, "SyncGroup")
        try:
            yield member
        finally:
            leaving_member = {"member_id": "" if instance else member.id, "group_instance_id": instance}
            with suppress(CheckFailed):  # the error of the check is more important
                await member.request("LeaveGroup", members=[leaving_member])
                await _delete_group(coordinator, connection, group)


async def _join_group(
    target: Target, connection: BrokerConnection, group: str, member: str, instance: str | None, **overrides: Any
) -> BrokerResponse:
    target.version("JoinGroup", _VERSIONS["JoinGroup"])
    values = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "kproxy-probe",
              "protocols": [{"name": "only", "metadata": b"metadata"}]} | overrides  # fmt: skip
    return await send_when_ready(target, connection, "JoinGroup", _VERSIONS["JoinGroup"], group_id=group,
                                 member_id=member, group_instance_id=instance, **values)  # fmt: skip


async def _delete_group(target: Target, connection: BrokerConnection, group: str) -> int:
    version = min(1, target.version("DeleteGroups"))
    response = await target.request(connection, "DeleteGroups", version, groups_names=[group])
    code: int = response.body["results"][0]["error_code"]
    return code
