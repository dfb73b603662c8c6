"""Consumer groups: the classic protocol's life cycle, and committed offsets."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from dissectors.schemas.codes import Error
from dissectors.wire.primitives import uuid_text
from kproxy.client.connection import BrokerConnection
from kproxy.probe.check import CheckSkipped, check
from kproxy.probe.scratch import ask_ready, coordinator, expect, scratch_topic, until
from kproxy.probe.target import BrokerAnswer, Target

_MANAGER = "group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java"


@check("groups/empty-group-id", _MANAGER)
async def empty_group_id(target: Target) -> None:
    """JoinGroup without a group id returns INVALID_GROUP_ID.

    Without the error, all consumers that lack a group id share a group.
    """
    async with target.connection() as connection:
        answer = await _join(target, connection, "", "")
        expect(answer.body["error_code"], Error.INVALID_GROUP_ID, "JoinGroup without a group id")


@check("groups/member-id-required", "KIP-394", writes=True)
async def member_id_required(target: Target) -> None:
    """From JoinGroup v4 on, a new member gets a member id with MEMBER_ID_REQUIRED, and joins with it.

    Without it, a client whose response was lost joins again as another member, and the first one delays the next
    rebalance.
    """
    target.version("JoinGroup", 4)
    group = target.new_name("group")
    at = await coordinator(target, group)
    async with at.connection() as connection:
        answer = await _first_join(at, connection, group)
        await _leave(at, connection, group, answer.body["member_id"])


@check("groups/unknown-member", _MANAGER, writes=True)
async def unknown_member(target: Target) -> None:
    """Heartbeat of an unknown member returns UNKNOWN_MEMBER_ID, which makes clients join again.

    With another error, a consumer that was removed from the group never returns.
    """
    group = target.new_name("group")
    at = await coordinator(target, group)
    async with at.connection() as connection:
        answer = await ask_ready(at, connection, "Heartbeat", min(4, at.version("Heartbeat")), group_id=group,
                                 generation_id=1, member_id="nobody")  # fmt: skip
        expect(answer.body["error_code"], Error.UNKNOWN_MEMBER_ID, "Heartbeat of an unknown member")


@check("groups/two-members", _MANAGER, writes=True)
async def two_members(target: Target) -> None:
    """Two members join, the leader's assignment reaches both, and the others rebalance when one leaves.

    This is how consumers share partitions.
    """
    group = target.new_name("group")
    at = await coordinator(target, group)
    async with at.connection() as first, at.connection() as second:
        joined = await _first_join(at, first, group)
        one = joined.body["member_id"]
        if joined.body["leader"] != one:
            raise joined.failed(f"the leader of a group with one member is {joined.body['leader']!r}, not {one!r}")
        await _sync(at, first, group, one, joined.body["generation_id"], {one: b"all"})
        two = await _new_member(at, second, group)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(_join(at, second, group, two))
            await _until_rebalance(at, first, group, one, joined.body["generation_id"])
            again = tasks.create_task(_join(at, first, group, one))
        answers = {one: again.result(), two: waiting.result()}
        generation = answers[one].body["generation_id"]
        if answers[two].body["generation_id"] != generation:
            raise answers[two].failed("the two members have different generations")
        leader = answers[one].body["leader"]
        members = {each["member_id"] for each in answers[leader].body["members"]}
        if members != {one, two}:
            raise answers[leader].failed(f"the leader gets the members {sorted(members)}")
        plan = {one: b"assignment of one", two: b"assignment of two"}
        async with asyncio.TaskGroup() as tasks:
            synced = {
                member: tasks.create_task(
                    _sync(at, connection, group, member, generation, plan if member == leader else {})
                )
                for member, connection in ((one, first), (two, second))
            }
        for member, task in synced.items():
            if task.result().body["assignment"] != plan[member]:
                raise task.result().failed(
                    f"the assignment is {task.result().body['assignment']!r}, not {plan[member]!r}"
                )
        await _leave(at, second, group, two)
        await _until_rebalance(at, first, group, one, generation)
        await _leave(at, first, group, one)


@check("groups/committed-offsets", _MANAGER, writes=True)
async def committed_offsets(target: Target) -> None:
    """A committed offset is returned with its metadata; a partition without one returns -1.

    A consumer that restarts continues there; an error instead of -1 makes it fail on its first start.
    """
    group = target.new_name("group")
    at = await coordinator(target, group)
    async with scratch_topic(target) as topic, at.connection() as connection:
        partition = {"partition_index": 0, "committed_offset": 42, "committed_metadata": "note"}
        answer = await at.ask(connection, "OffsetCommit", min(7, at.version("OffsetCommit")), group_id=group,
                              generation_id_or_member_epoch=-1, member_id="", retention_time_ms=-1,
                              topics=[{"name": topic.name, "partitions": [partition]}])  # fmt: skip
        expect(answer.body["topics"][0]["partitions"][0]["error_code"], Error.NONE, "OffsetCommit")
        answer = await at.ask(connection, "OffsetFetch", min(7, at.version("OffsetFetch")), group_id=group,
                              topics=[{"name": topic.name, "partition_indexes": [0, 1]}])  # fmt: skip
        partitions = {partition["partition_index"]: partition for partition in answer.body["topics"][0]["partitions"]}
        if (partitions[0]["committed_offset"], partitions[0]["metadata"]) != (42, "note"):
            raise answer.failed(f"offset 42 with metadata 'note' is returned as {partitions[0]}")
        if partitions[1]["committed_offset"] != -1 or partitions[1]["error_code"]:
            raise answer.failed("a partition without a committed offset does not return -1 without an error")
        await at.ask(connection, "DeleteGroups", min(2, at.version("DeleteGroups")), groups_names=[group])


@check("groups/consumer-protocol", "KIP-848", writes=True)
async def consumer_protocol(target: Target) -> None:
    """With the new consumer protocol, the only member is assigned all partitions, and leaves with epoch -1.

    Kafka 4 has it enabled, and consumers with group.protocol=consumer use nothing else.
    """
    version = min(1, target.version("ConsumerGroupHeartbeat"))
    group, member = target.new_name("group"), uuid_text(secrets.token_bytes(16))
    at = await coordinator(target, group)
    async with scratch_topic(target) as topic, at.connection() as connection:
        epoch = 0

        async def beat() -> BrokerAnswer:
            nonlocal epoch, member
            values: dict[str, object] = {"group_id": group, "member_id": member, "member_epoch": epoch}
            if not epoch:
                values |= {
                    "rebalance_timeout_ms": 10_000,
                    "subscribed_topic_names": [topic.name],
                    "topic_partitions": [],
                }
            answer = await ask_ready(at, connection, "ConsumerGroupHeartbeat", version, **values)
            if answer.body["error_code"] == Error.UNSUPPORTED_VERSION:
                raise CheckSkipped("the new consumer protocol is not enabled (group.coordinator.rebalance.protocols)")
            expect(answer.body["error_code"], Error.NONE, "ConsumerGroupHeartbeat")
            epoch, member = answer.body["member_epoch"], answer.body["member_id"] or member  # v0: the broker's choice
            return answer

        answer = await until(
            target, beat, lambda answer: bool((answer.body["assignment"] or {}).get("topic_partitions"))
        )
        assigned = answer.body["assignment"]
        if not assigned or [topic["partitions"] for topic in assigned["topic_partitions"]] != [[0]]:
            raise answer.failed(f"the only member is assigned {assigned} instead of partition 0 of its topic")
        left = await at.ask(connection, "ConsumerGroupHeartbeat", version, group_id=group, member_id=member,
                            member_epoch=-1)  # fmt: skip
        expect(left.body["error_code"], Error.NONE, "ConsumerGroupHeartbeat with epoch -1")
        if left.body["member_epoch"] != -1:
            raise left.failed(f"a member that leaves gets epoch {left.body['member_epoch']} instead of -1")
        await at.ask(connection, "DeleteGroups", min(2, at.version("DeleteGroups")), groups_names=[group])


async def _new_member(target: Target, connection: BrokerConnection, group: str) -> str:
    """A member id for a new member, which the broker assigns (KIP-394)."""
    answer = await _join(target, connection, group, "")
    expect(answer.body["error_code"], Error.MEMBER_ID_REQUIRED, "JoinGroup without a member id")
    member: str = answer.body["member_id"]
    if not member:
        raise answer.failed("the response has no member id")
    return member


async def _first_join(target: Target, connection: BrokerConnection, group: str) -> BrokerAnswer:
    """Join an empty group with a new member id.

    Whenever a topic is deleted, Kafka before 4.0 removes empty groups, and with them the ids that it has assigned.
    """

    async def join() -> BrokerAnswer:
        return await _join(target, connection, group, await _new_member(target, connection, group))

    answer = await until(target, join, lambda answer: answer.body["error_code"] != Error.UNKNOWN_MEMBER_ID)
    expect(answer.body["error_code"], Error.NONE, "JoinGroup with the assigned member id")
    return answer


async def _join(target: Target, connection: BrokerConnection, group: str, member: str) -> BrokerAnswer:
    return await ask_ready(
        target, connection, "JoinGroup", min(5, target.version("JoinGroup", 4)), group_id=group,
        session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id=member, protocol_type="kproxy-probe",
        protocols=[{"name": "only", "metadata": b"metadata"}],
    )  # fmt: skip


async def _sync(
    target: Target, connection: BrokerConnection, group: str, member: str, generation: int, plan: dict[str, bytes]
) -> BrokerAnswer:
    assignments: list[dict[str, Any]] = [
        {"member_id": member_id, "assignment": data} for member_id, data in plan.items()
    ]
    answer = await target.ask(connection, "SyncGroup", min(3, target.version("SyncGroup")), group_id=group,
                              generation_id=generation, member_id=member, assignments=assignments)  # fmt: skip
    expect(answer.body["error_code"], Error.NONE, "SyncGroup")
    return answer


async def _until_rebalance(
    target: Target, connection: BrokerConnection, group: str, member: str, generation: int
) -> None:
    """Send heartbeats until one returns REBALANCE_IN_PROGRESS."""
    for _ in range(50):
        answer = await target.ask(connection, "Heartbeat", min(3, target.version("Heartbeat")), group_id=group,
                                  generation_id=generation, member_id=member)  # fmt: skip
        if answer.body["error_code"] == Error.REBALANCE_IN_PROGRESS:
            return
        expect(answer.body["error_code"], Error.NONE, "Heartbeat")
        await asyncio.sleep(0.1)
    raise answer.failed("the change of members does not make heartbeats return REBALANCE_IN_PROGRESS within 5 s")


async def _leave(target: Target, connection: BrokerConnection, group: str, member: str) -> None:
    answer = await target.ask(connection, "LeaveGroup", min(2, target.version("LeaveGroup")), group_id=group,
                              member_id=member)  # fmt: skip
    expect(answer.body["error_code"], Error.NONE, "LeaveGroup")
