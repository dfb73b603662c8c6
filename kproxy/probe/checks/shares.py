"""Share groups: members acquire records, and accept, release or reject each of them (KIP-932)."""

from __future__ import annotations

from dataclasses import replace

from dissectors.schemas.codes import Error
from kproxy.probe.check import CheckFailed, check
from kproxy.probe.scratch import batch, expect, find_coordinator, scratch_topic
from kproxy.probe.share_groups import (
    ACCEPT,
    BEGIN,
    END,
    REJECT,
    RELEASE,
    ShareGroupMember,
    heartbeat,
    joined_members,
    new_member_id,
    share_group,
)
from kproxy.probe.target import Target

_PARTITION = "core/src/main/java/kafka/server/share/SharePartition.java"
_SESSIONS = "core/src/main/java/kafka/server/share/SharePartitionManager.java"
_GROUPS = "group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java"
_SOON_MS, _NOTHING_MS = 5000, 200  # how long a fetch waits for records that should come, or should not


@check("shares/members", "KIP-932", _GROUPS, writes=True)
async def check_members(target: Target) -> None:
    """All members of a share group are assigned the only partition, and leave with epoch -1.

    Unlike in other groups, a partition has many members.
    """
    async with scratch_topic(target) as topic, joined_members(target, topic.name, 2) as (group, ids):
        coordinator = await find_coordinator(target, group)
        async with coordinator.connection() as connection:
            leave_response = await heartbeat(coordinator, connection, group, ids[0], END)
            expect(leave_response.body["error_code"], Error.NONE, "ShareGroupHeartbeat with epoch -1")
            if leave_response.body["member_epoch"] != END:
                raise leave_response.failure(
                    f"a member that leaves gets epoch {leave_response.body['member_epoch']} instead of -1"
                )


@check("shares/fenced-members", "KIP-932", _GROUPS, writes=True)
async def check_fenced_members(target: Target) -> None:
    """Heartbeats of unknown members return UNKNOWN_MEMBER_ID, those with a wrong epoch FENCED_MEMBER_EPOCH.

    Either error makes consumers rejoin.
    """
    async with scratch_topic(target) as topic, joined_members(target, topic.name) as (group, [member]):
        coordinator = await find_coordinator(target, group)
        async with coordinator.connection() as connection:
            for member_id, expected in (
                (new_member_id(), Error.UNKNOWN_MEMBER_ID), (member, Error.FENCED_MEMBER_EPOCH),
            ):  # fmt: skip
                response = await heartbeat(coordinator, connection, group, member_id, 1000)
                expect(response.body["error_code"], expected, "ShareGroupHeartbeat with epoch 1000")


@check("shares/acquire", "KIP-932", _PARTITION, writes=True)
async def check_acquire(target: Target) -> None:
    """A record is acquired by one member, for the first time, and by no other while that one has it.

    Otherwise, several members process each record.
    """
    async with share_group(target, 2) as (first, second):
        offset = await _produce(first)
        await _check_acquires(first, {offset: 1}, "the first member")
        await _check_acquires(second, {}, "another member")


@check("shares/accept", "KIP-932", _PARTITION, writes=True)
async def check_accept(target: Target) -> None:
    """An accepted record is not delivered again, even after its member has left.

    Otherwise records are processed twice.
    """
    await _check_acknowledgement(target, ACCEPT, {})


@check("shares/release", "KIP-932", _PARTITION, writes=True)
async def check_release(target: Target) -> None:
    """A released record is delivered again, and the delivery count is 2.

    Applications count deliveries to give up on a record that they cannot process.
    """
    await _check_acknowledgement(target, RELEASE, {0: 2})


@check("shares/reject", "KIP-932", _PARTITION, writes=True)
async def check_reject(target: Target) -> None:
    """A rejected record is not delivered again.

    Otherwise a record that no application can process comes back forever.
    """
    await _check_acknowledgement(target, REJECT, {})


@check("shares/some", "KIP-932", _PARTITION, writes=True)
async def check_acknowledge_individually(target: Target) -> None:
    """Records of one batch are acknowledged one by one: only the released one is delivered again.

    Members acknowledge records, not batches.
    """
    async with share_group(target, 2) as (first, second):
        offset = await _produce(first, 3)
        await _check_acquires(first, {offset: 1, offset + 1: 1, offset + 2: 1}, "the first member")
        for index, acknowledge_type in enumerate((ACCEPT, RELEASE, REJECT)):
            code = await first.acknowledge(offset + index, offset + index, acknowledge_type)
            expect(code, Error.NONE, f"ShareAcknowledge of record {index + 1} of 3")
        await _check_acquires(second, {offset + 1: 2}, "another member")


@check("shares/end-of-session", "KIP-932", _SESSIONS, writes=True)
async def check_end_of_session(target: Target) -> None:
    """A member that ends its share session releases what it has acquired.

    Consumers end it when they close. Without the release, others wait until the lock times out, 30 s by default.
    """
    async with share_group(target, 2) as (first, second):
        offset = await _produce(first)
        await _check_acquires(first, {offset: 1}, "the first member")
        await first.end()
        await _check_acquires(second, {offset: 2}, "another member")


@check("shares/not-acquired", "KIP-932", _PARTITION, writes=True)
async def check_acknowledge_without_acquiring(target: Target) -> None:
    """Acknowledging a record that the member has not acquired returns INVALID_RECORD_STATE.

    This tells a member that was too slow that another one may also have processed the record.
    """
    async with share_group(target, 2) as (first, second):
        offset = await _produce(first)
        await _check_acquires(first, {offset: 1}, "the first member")
        await second.fetch(max_wait_ms=0)  # begins its session
        code = await second.acknowledge(offset, offset, ACCEPT)
        expect(code, Error.INVALID_RECORD_STATE, "ShareAcknowledge of another member's record")


@check("shares/session-epochs", "KIP-932", _SESSIONS, writes=True)
async def check_session_epochs(target: Target) -> None:
    """A wrong session epoch returns INVALID_SHARE_SESSION_EPOCH, and an unknown session SHARE_SESSION_NOT_FOUND.

    Either error makes consumers begin a new session.
    """
    async with share_group(target) as [member]:
        for requester, epoch, expected in (
            (member, member.epoch + 5, Error.INVALID_SHARE_SESSION_EPOCH),
            (replace(member, id=new_member_id()), 1, Error.SHARE_SESSION_NOT_FOUND),
        ):
            for api in ("ShareFetch", "ShareAcknowledge"):
                response = await replace(requester, epoch=epoch).request(api)
                expect(response.body["error_code"], expected, f"{api} with session epoch {epoch}")


@check("shares/first-acknowledge", "KIP-932", _SESSIONS, writes=True)
async def check_first_acknowledge(target: Target) -> None:
    """ShareAcknowledge with epoch 0 returns INVALID_SHARE_SESSION_EPOCH: only ShareFetch begins a session.

    This tells a member whose session is lost that its acknowledgements have no effect.
    """
    async with share_group(target) as [member]:
        member.epoch = BEGIN
        response = await member.request("ShareAcknowledge")
        expect(response.body["error_code"], Error.INVALID_SHARE_SESSION_EPOCH, "ShareAcknowledge with session epoch 0")


async def _check_acknowledgement(target: Target, acknowledge_type: int, redeliveries: dict[int, int]) -> None:
    """Acknowledge a record, and check the delivery counts (by relative offset) that another member then gets."""
    async with share_group(target, 2) as (first, second):
        offset = await _produce(first)
        await _check_acquires(first, {offset: 1}, "the first member")
        expect(await first.acknowledge(offset, offset, acknowledge_type), Error.NONE, "ShareAcknowledge")
        await first.end()
        expected = {offset + number: count for number, count in redeliveries.items()}
        await _check_acquires(second, expected, "another member")


async def _produce(member: ShareGroupMember, count: int = 1) -> int:
    """Produce a batch of records, and return the first offset."""
    produce_result = await member.topic.produce(batch(*(b"%d" % number for number in range(count))))
    expect(produce_result["error_code"], Error.NONE, "Produce")
    offset: int = produce_result["base_offset"]
    return offset


async def _check_acquires(member: ShareGroupMember, expected: dict[int, int], description: str) -> None:
    """Fail unless the member acquires exactly these offsets, with these delivery counts."""
    acquired = await member.fetch(max_wait_ms=_SOON_MS if expected else _NOTHING_MS)
    if acquired != expected:
        raise CheckFailed(
            f"{description} acquires the offsets {acquired or 'none'} instead of {expected or 'none'} (with delivery "
            "counts)"
        )
