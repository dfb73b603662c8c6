"""Consumer groups: the life cycle of the classic and the new protocol, and committed offsets."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from dissectors.schemas.codes import Error
from dissectors.wire.primitives import uuid_text
from kproxy.client.connection import BrokerConnection
from kproxy.probe.check import CheckSkipped, check
from kproxy.probe.scratch import expect, find_coordinator, poll_until, scratch_topic, send_when_ready
from kproxy.probe.target import BrokerResponse, Target

_MANAGER = "group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java"


@check("groups/empty-group-id", _MANAGER)
async def check_empty_group_id(target: Target) -> None:
    """JoinGroup without a group id returns INVALID_GROUP_ID.

    Without the error, all consumers that lack a group id share a group.
    """
    async with target.connection() as connection:
        response = await _join_group(target, connection, "", "")
        expect(response.body["error_code"], Error.INVALID_GROUP_ID, "JoinGroup without a group id")


@check("groups/member-id-required", "KIP-394", writes=True)
async def check_member_id_required(target: Target) -> None:
    """From JoinGroup v4 on, a new member gets a member id with MEMBER_ID_REQUIRED, and joins with it.

    Otherwise, a client whose response was lost rejoins as another member, and its first membership delays the next
    rebalance.
    """
    target.version("JoinGroup", 4)
    group = target.new_name("group")
    coordinator = await find_coordinator(target, group)
    async with coordinator.connection() as connection:
        response = await _join_empty_group(coordinator, connection, group)
        await _leave_group(coordinator, connection, group, response.body["member_id"])


@check("groups/unknown-member", _MANAGER, writes=True)
async def check_unknown_member(target: Target) -> None:
    """Heartbeat of an unknown member returns UNKNOWN_MEMBER_ID, which makes clients join again.

    With another error, a consumer that was removed from the group never returns.
    """
    group = target.new_name("group")
    coordinator = await find_coordinator(target, group)
    async with coordinator.connection() as connection:
        response = await send_when_ready(coordinator, connection, "Heartbeat", min(4, coordinator.version("Heartbeat")),
                                         group_id=group, generation_id=1, member_id="nobody")  # fmt: skip
        expect(response.body["error_code"], Error.UNKNOWN_MEMBER_ID, "Heartbeat of an unknown member")


@check("groups/two-members", _MANAGER, writes=True)
async def check_two_members(target: Target) -> None:
    """Two members join, the leader's assignment reaches both, and the others rebalance when one leaves.

    This is how consumers share partitions.
    """
    group = target.new_name("group")
    coordinator = await find_coordinator(target, group)
    async with coordinator.connection() as first, coordinator.connection() as second:
        join_response = await _join_empty_group(coordinator, first, group)
        first_id = join_response.body["member_id"]
        if join_response.body["leader"] != first_id:
            raise join_response.failure(
                f"the leader of a group with one member is {join_response.body['leader']!r}, not {first_id!r}"
            )
        await _sync_group(coordinator, first, group, first_id, join_response.body["generation_id"], {first_id: b"all"})
        second_id = await _request_member_id(coordinator, second, group)
        async with asyncio.TaskGroup() as tasks:
            second_join = tasks.create_task(_join_group(coordinator, second, group, second_id))
            await _wait_for_rebalance(coordinator, first, group, first_id, join_response.body["generation_id"])
            first_rejoin = tasks.create_task(_join_group(coordinator, first, group, first_id))
        join_responses = {first_id: first_rejoin.result(), second_id: second_join.result()}
        generation = join_responses[first_id].body["generation_id"]
        if join_responses[second_id].body["generation_id"] != generation:
            raise join_responses[second_id].failure("the two members have different generations")
        leader = join_responses[first_id].body["leader"]
        members = {entry["member_id"] for entry in join_responses[leader].body["members"]}
        if members != {first_id, second_id}:
            raise join_responses[leader].failure(f"the leader gets the members {sorted(members)}")
        expected_assignments = {first_id: b"assignment of one", second_id: b"assignment of two"}
        async with asyncio.TaskGroup() as tasks:
            synced = {
                member: tasks.create_task(
                    _sync_group(
                        coordinator,
                        connection,
                        group,
                        member,
                        generation,
                        expected_assignments if member == leader else {},
                    )
                )
                for member, connection in ((first_id, first), (second_id, second))
            }
        for member, task in synced.items():
            if task.result().body["assignment"] != expected_assignments[member]:
                raise task.result().failure(
                    f"the assignment is {task.result().body['assignment']!r}, not {expected_assignments[member]!r}"
                )
        await _leave_group(coordinator, second, group, second_id)
        await _wait_for_rebalance(coordinator, first, group, first_id, generation)
        await _leave_group(coordinator, first, group, first_id)


@check("groups/committed-offsets", _MANAGER, writes=True)
async def check_committed_offsets(target: Target) -> None:
    """A committed offset is returned with its metadata; a partition without one returns -1.

    A restarted consumer continues there; an error instead of -1 makes it fail on its first start.
    """
    group = target.new_name("group")
    coordinator = await find_coordinator(target, group)
    async with scratch_topic(target) as topic, coordinator.connection() as connection:
        partition = {"partition_index": 0, "committed_offset": 42, "committed_metadata": "note"}
        response = await coordinator.request(connection, "OffsetCommit", min(7, coordinator.version("OffsetCommit")),
                                         group_id=group, generation_id_or_member_epoch=-1, member_id="",
                                         retention_time_ms=-1,
                                         topics=[{"name": topic.name, "partitions": [partition]}])  # fmt: skip
        expect(response.body["topics"][0]["partitions"][0]["error_code"], Error.NONE, "OffsetCommit")
        response = await coordinator.request(connection, "OffsetFetch", min(7, coordinator.version("OffsetFetch")),
                                         group_id=group,
                                         topics=[{"name": topic.name, "partition_indexes": [0, 1]}])  # fmt: skip
        partitions = {partition["partition_index"]: partition for partition in response.body["topics"][0]["partitions"]}
        if (partitions[0]["committed_offset"], partitions[0]["metadata"]) != (42, "note"):
            raise response.failure(f"offset 42 with metadata 'note' is returned as {partitions[0]}")
        if partitions[1]["committed_offset"] != -1 or partitions[1]["error_code"]:
            raise response.failure("a partition without a committed offset does not return -1 without an error")
        await coordinator.request(
            connection, "DeleteGroups", min(2, coordinator.version("DeleteGroups")), groups_names=[group]
        )


@check("groups/consumer-protocol", "KIP-848", writes=True)
async def check_consumer_protocol(target: Target) -> None:
    """With the new consumer protocol, the only member is assigned all partitions, and leaves with epoch -1.

    It is enabled in Kafka 4, and consumers with group.protocol=consumer use nothing else.
    """
    version = min(1, target.version("ConsumerGroupHeartbeat"))
    group, member = target.new_name("group"), uuid_text(secrets.token_bytes(16))
    coordinator = await find_coordinator(target, group)
    async with scratch_topic(target) as topic, coordinator.connection() as connection:
        epoch = 0

        async def send_heartbeat() -> BrokerResponse:
            nonlocal epoch, member
            values: dict[str, object] = {"group_id": group, "member_id": member, "member_epoch": epoch}
            if not epoch:
                values |= {
                    "rebalance_timeout_ms": 10_000,
                    "subscribed_topic_names": [topic.name],
                    "topic_partitions": [],
                }
            answer = await send_when_ready(coordinator, connection, "ConsumerGroupHeartbeat", version, **values)
            if answer.body["error_code"] == Error.UNSUPPORTED_VERSION:
                raise CheckSkipped("the new consumer protocol is not enabled (group.coordinator.rebalance.protocols)")
            expect(answer.body["error_code"], Error.NONE, "ConsumerGroupHeartbeat")
            epoch, member = answer.body["member_epoch"], answer.body["member_id"] or member  # v0: the broker's choice
            return answer

        response = await poll_until(
            target, send_heartbeat, lambda answer: bool((answer.body["assignment"] or {}).get("topic_partitions"))
        )
        assignment = response.body["assignment"]
        if not assignment or [topic["partitions"] for topic in assignment["topic_partitions"]] != [[0]]:
            raise response.failure(f"the only member is assigned {assignment} instead of partition 0 of its topic")
        leave_response = await coordinator.request(connection, "ConsumerGroupHeartbeat", version, group_id=group,
                                                   member_id=member, member_epoch=-1)  # fmt: skip
        expect(leave_response.body["error_code"], Error.NONE, "ConsumerGroupHeartbeat with epoch -1")
        if leave_response.body["member_epoch"] != -1:
            raise leave_response.failure(
                f"a member that leaves gets epoch {leave_response.body['member_epoch']} instead of -1"
            )
        await coordinator.request(
            connection, "DeleteGroups", min(2, coordinator.version("DeleteGroups")), groups_names=[group]
        )


async def _request_member_id(target: Target, connection: BrokerConnection, group: str) -> str:
    """Return the id that the broker assigns to a new member (KIP-394)."""
    response = await _join_group(target, connection, group, "")
    expect(response.body["error_code"], Error.MEMBER_ID_REQUIRED, "JoinGroup without a member id")
    member: str = response.body["member_id"]
    if not member:
        raise response.failure("the response has no member id")
    return member


async def _join_empty_group(target: Target, connection: BrokerConnection, group: str) -> BrokerResponse:
    """Join an empty group with a new member id.

    Before 4.0, Kafka removes empty groups whenever a topic is deleted, and with them the ids that it has assigned.
    """

    async def join() -> BrokerResponse:
        return await _join_group(target, connection, group, await _request_member_id(target, connection, group))

    response = await poll_until(target, join, lambda answer: answer.body["error_code"] != Error.UNKNOWN_MEMBER_ID)
    expect(response.body["error_code"], Error.NONE, "JoinGroup with the assigned member id")
    return response


async def _join_group(target: Target, connection: BrokerConnection, group: str, member: str) -> BrokerResponse:
    return await send_when_ready(
        target, connection, "JoinGroup", min(5, target.version("JoinGroup", 4)), group_id=group,
        session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id=member, protocol_type="kproxy-probe",
        protocols=[{"name": "only", "metadata": b"metadata"}],
    )  # fmt: skip


async def _sync_group(
    target: Target,
    connection: BrokerConnection,
    group: str,
    member: str,
    generation: int,
    member_assignments: dict[str, bytes],
) -> BrokerResponse:
    assignments: list[dict[str, Any]] = [
        {"member_id": member_id, "assignment": data} for member_id, data in member_assignments.items()
    ]
    response = await target.request(connection, "SyncGroup", min(3, target.version("SyncGroup")), group_id=group,
                                generation_id=generation, member_id=member, assignments=assignments)  # fmt: skip
    expect(response.body["error_code"], Error.NONE, "SyncGroup")
    return response


async def _wait_for_rebalance(
    target: Target, connection: BrokerConnection, group: str, member: str, generation: int
) -> None:
    """Send heartbeats until one returns REBALANCE_IN_PROGRESS."""
    for _ in range(50):
        response = await target.request(connection, "Heartbeat", min(3, target.version("Heartbeat")), group_id=group,
                                    generation_id=generation, member_id=member)  # fmt: skip
        if response.body["error_code"] == Error.REBALANCE_IN_PROGRESS:
            return
        expect(response.body["error_code"], Error.NONE, "Heartbeat")
        await asyncio.sleep(0.1)
    raise response.failure("the change of members does not make heartbeats return REBALANCE_IN_PROGRESS within 5 s")


async def _leave_group(target: Target, connection: BrokerConnection, group: str, member: str) -> None:
    response = await target.request(connection, "LeaveGroup", min(2, target.version("LeaveGroup")), group_id=group,
                                member_id=member)  # fmt: skip
    expect(response.body["error_code"], Error.NONE, "LeaveGroup")
