"""Helpers for checks of share groups: a group whose members can acquire and acknowledge records (KIP-932)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from dissectors import records
from dissectors.schemas.codes import Error
from dissectors.wire.primitives import uuid_text
from kproxy.client.connection import BrokerConnection
from kproxy.probe.check import CheckFailed, CheckSkipped
from kproxy.probe.scratch import (
    ScratchTopic,
    batch,
    expect,
    find_coordinator,
    poll_until,
    scratch_topic,
    send_when_ready,
)
from kproxy.probe.target import BrokerResponse, Target

ACCEPT, RELEASE, REJECT = 1, 2, 3
BEGIN, END = 0, -1  # epochs of a share session
_VERSION: Final = 1  # of the three APIs; version 0 was a preview with a different layout
_POLL_MS: Final = 100


@dataclass(slots=True)
class ShareGroupMember:
    """A member of a share group: its connection to the leader, and the next epoch of its share session there."""

    topic: ScratchTopic
    topic_id: str
    group: str
    id: str
    epoch: int = BEGIN

    async def fetch(self, *, max_wait_ms: int) -> dict[int, int]:
        """Acquire records, waiting for them if necessary, and return the delivery count by offset."""
        response = await self.request("ShareFetch", max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20,
                                      max_records=100, batch_size=100,
                                      topics=self.partition() if self.epoch == BEGIN else [])  # fmt: skip
        expect(response.body["error_code"], Error.NONE, f"ShareFetch with session epoch {self.epoch}")
        self.epoch += 1
        deliveries: dict[int, int] = {}
        for partition in (partition for topic in response.body["responses"] for partition in topic["partitions"]):
            expect(partition["error_code"], Error.NONE, "ShareFetch of the partition")
            sent_offsets = {record["offset"] for partition in records.decode(partition["records"] or b"")
                    for record in partition.get("records", ())}  # fmt: skip
            for record in partition["acquired_records"]:
                offsets = range(record["first_offset"], record["last_offset"] + 1)
                if not all(offset in sent_offsets for offset in offsets):
                    raise response.failure("the response does not have all records that are acquired")
                deliveries.update(dict.fromkeys(offsets, record["delivery_count"]))
        return deliveries

    async def acknowledge(self, first: int, last: int, acknowledge_type: int) -> int:
        """Acknowledge the records from `first` to `last`, and return the error code of the partition."""
        response = await self.request("ShareAcknowledge", topics=self.partition(
            {"first_offset": first, "last_offset": last, "acknowledge_types": [acknowledge_type]}
        ))  # fmt: skip
        expect(response.body["error_code"], Error.NONE, f"ShareAcknowledge with session epoch {self.epoch}")
        self.epoch += 1
        code: int = response.body["responses"][0]["partitions"][0]["error_code"]
        return code

    async def end(self) -> None:
        """End the session, which releases the records that are still acquired."""
        self.epoch = END
        response = await self.request("ShareAcknowledge")
        expect(response.body["error_code"], Error.NONE, "ShareAcknowledge with session epoch -1")

    async def request(self, api: str, **values: object) -> BrokerResponse:
        """Send a request in the member's share session."""
        session = {"group_id": self.group, "member_id": self.id, "share_session_epoch": self.epoch}
        return await self.topic.request(api, _VERSION, **session | values)

    def partition(self, *acknowledged_batches: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the topic with its partition, as ShareFetch and ShareAcknowledge name it."""
        partition = {"partition_index": 0, "acknowledgement_batches": list(acknowledged_batches)}
        return [{"topic_id": self.topic_id, "partitions": [partition]}]


@asynccontextmanager
async def share_group(target: Target, members: int = 1) -> AsyncIterator[list[ShareGroupMember]]:
    """Create a topic and a share group with members that can acquire its records; delete both at the end.

    All earlier records have been accepted: the next record to be produced is the next one to be acquired.
    """
    target.version("ShareFetch", _VERSION)
    target.version("ShareAcknowledge", _VERSION)
    async with (
        scratch_topic(target) as topic,
        joined_members(target, topic.name, members) as (group, member_ids),
        AsyncExitStack() as stack,
    ):
        topic_id = await topic.topic_id()
        share_members = []
        for member_id in member_ids:
            connection = await stack.enter_async_context(topic.target.connection())
            share_members.append(ShareGroupMember(replace(topic, connection=connection), topic_id, group, member_id))
        await _advance_group_to_end(topic, share_members[0])
        yield share_members


async def _advance_group_to_end(topic: ScratchTopic, member: ShareGroupMember) -> None:
    """Produce records until the group, which begins at the end of the topic, gets one, and accept it."""

    async def acquire() -> dict[int, int]:
        expect((await topic.produce(batch(b"first")))["error_code"], Error.NONE, "Produce")
        return await member.fetch(max_wait_ms=_POLL_MS)

    acquired = await poll_until(topic.target, acquire, bool)
    if not acquired:
        raise CheckFailed("the member of a new share group acquires no record")
    expect(await member.acknowledge(min(acquired), max(acquired), ACCEPT), Error.NONE, "ShareAcknowledge (accept)")


@asynccontextmanager
async def joined_members(target: Target, topic: str, members: int = 1) -> AsyncIterator[tuple[str, list[str]]]:
    """Create a share group whose members are assigned the topic's partition, and delete it at the end.

    Yield the id of the group and the ids of the members.
    """
    target.version("ShareGroupHeartbeat", _VERSION)
    group, member_ids = target.new_name("share"), [new_member_id() for _ in range(members)]
    coordinator = await find_coordinator(target, group)
    async with coordinator.connection() as connection:
        try:
            for member in member_ids:
                await _join(coordinator, connection, group, member, topic)
            yield group, member_ids
        finally:
            for member in member_ids:
                await heartbeat(coordinator, connection, group, member, END)
            version = min(2, coordinator.version("DeleteGroups"))
            await coordinator.request(connection, "DeleteGroups", version, groups_names=[group])


async def _join(target: Target, connection: BrokerConnection, group: str, member: str, topic: str) -> None:
    """Join the group, and send heartbeats until the partition is assigned."""
    epoch = 0
    topics: list[str] | None = [topic]

    async def send_heartbeat() -> BrokerResponse:
        nonlocal epoch, topics
        heartbeat_response = await heartbeat(target, connection, group, member, epoch, topics)
        if heartbeat_response.body["error_code"] == Error.UNSUPPORTED_VERSION:
            raise CheckSkipped("share groups are not enabled (the feature share.version)")
        expect(heartbeat_response.body["error_code"], Error.NONE, "ShareGroupHeartbeat")
        epoch, topics = heartbeat_response.body["member_epoch"], None
        return heartbeat_response

    response = await poll_until(target, send_heartbeat, lambda answer: _assigned_partitions(answer) == [[0]])
    if _assigned_partitions(response) != [[0]]:
        raise response.failure(
            f"the member is assigned {response.body['assignment']} instead of partition 0 of its topic"
        )


def _assigned_partitions(response: BrokerResponse) -> list[list[int]]:
    return [topic["partitions"] for topic in (response.body["assignment"] or {}).get("topic_partitions", ())]


async def heartbeat(
    target: Target, connection: BrokerConnection, group: str, member: str, epoch: int, topics: list[str] | None = None
) -> BrokerResponse:
    """Send ShareGroupHeartbeat, repeatedly while the coordinator loads."""
    return await send_when_ready(
        target, connection, "ShareGroupHeartbeat", _VERSION, group_id=group, member_id=member, member_epoch=epoch,
        rack_id=None, subscribed_topic_names=topics,
    )  # fmt: skip


def new_member_id() -> str:
    """Return a unique member id; members choose their own."""
    return uuid_text(secrets.token_bytes(16))
