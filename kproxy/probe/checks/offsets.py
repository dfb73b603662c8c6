"""ListOffsets and leader epochs: special timestamps, epochs, and requests to a broker that is not the leader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from dissectors import records
from dissectors.schemas.codes import ApiKey, Error
from kproxy.probe.check import CheckFailed, CheckSkipped, check
from kproxy.probe.scratch import batch, expect, poll_until, scratch_topic
from kproxy.probe.target import Target
from kproxy.proxy.address import TcpAddress

_KAFKA_APIS = "core/src/main/scala/kafka/server/KafkaApis.scala"
_REPLICA_MANAGER = "core/src/main/scala/kafka/server/ReplicaManager.scala"
_PARTITION = "core/src/main/scala/kafka/cluster/Partition.scala"
_LIST_OFFSETS = "clients/src/main/java/org/apache/kafka/common/requests/ListOffsetsRequest.java"
_TIMES: Final = (1_700_000_002_000, 1_700_000_003_000, 1_700_000_001_000)  # the second record has the maximum
_FUTURE_EPOCH: Final = 1_000_000


@check("offsets/earliest-and-latest", "KIP-79", _LIST_OFFSETS, writes=True)
async def check_earliest_and_latest(target: Target) -> None:
    """Timestamps -2 and -1 return the first offset and the end, in every version of ListOffsets from 1 on.

    Consumers begin at one of them, each with the version that it supports.
    """
    await _check_offsets(target, 1, {-2: (0, None), -1: (len(_TIMES), None)})


@check("offsets/max-timestamp", "KIP-734", _LIST_OFFSETS, writes=True)
async def check_max_timestamp(target: Target) -> None:
    """From version 7 on, timestamp -3 returns the offset and the timestamp of the record with the latest timestamp.

    Monitoring uses it to find topics that nobody writes to.
    """
    await _check_offsets(target, 7, {-3: (1, max(_TIMES))})


@check("offsets/earliest-local", "KIP-405", _LIST_OFFSETS, writes=True)
async def check_earliest_local(target: Target) -> None:
    """From version 8 on, timestamp -4 returns the first offset on the broker's own disk.

    Without tiered storage, it is the first offset of the log.
    """
    await _check_offsets(target, 8, {-4: (0, None)})


@check("offsets/latest-tiered", "KIP-1005", _LIST_OFFSETS, writes=True)
async def check_latest_tiered(target: Target) -> None:
    """From version 9 on, timestamp -5 returns the last offset in tiered storage, or -1 without any.

    Tools use it to compute how much is not yet in tiered storage.
    """
    await _check_offsets(target, 9, {-5: (-1, None)})


@check("offsets/special-timestamp-too-early", "KIP-734", _KAFKA_APIS, writes=True)
async def check_special_timestamp_too_early(target: Target) -> None:
    """A special timestamp in a version before it was defined returns UNSUPPORTED_VERSION.

    A broker that searches for a record from that time on returns the first offset instead, which looks right.
    """
    newest = target.version("ListOffsets", 7)
    async with scratch_topic(target) as topic:
        for timestamp, first_version in ((-3, 7), (-4, 8), (-5, 9)):
            lowest = target.served[ApiKey.LIST_OFFSETS][0]
            if newest >= first_version > lowest:
                code = (await topic.offset(timestamp, first_version - 1))["error_code"]
                expect(code, Error.UNSUPPORTED_VERSION, f"ListOffsets v{first_version - 1} of timestamp {timestamp}")


@check("offsets/leader-epochs", "KIP-320", _PARTITION, writes=True)
async def check_leader_epochs(target: Target) -> None:
    """Fetch and ListOffsets with a leader epoch that the broker does not know return UNKNOWN_LEADER_EPOCH.

    The client has newer metadata than the broker, and tries again. Without the error, a broker that is cut off from
    the others lets consumers read records that are going to be truncated.
    """
    target.version("Fetch", 9)
    target.version("ListOffsets", 4)
    async with scratch_topic(target) as topic:
        fetch_result = await topic.fetch(current_leader_epoch=_FUTURE_EPOCH)
        expect(fetch_result["error_code"], Error.UNKNOWN_LEADER_EPOCH, "Fetch with an unknown leader epoch")
        offset_result = await topic.offset(-1, current_leader_epoch=_FUTURE_EPOCH)
        expect(offset_result["error_code"], Error.UNKNOWN_LEADER_EPOCH, "ListOffsets with an unknown leader epoch")


@check("offsets/not-leader", _REPLICA_MANAGER, writes=True)
async def check_not_leader(target: Target) -> None:
    """Produce, Fetch and ListOffsets return NOT_LEADER_OR_FOLLOWER at a broker that has no replica of the partition.

    Only this error makes clients refresh their metadata.
    """
    async with scratch_topic(target) as topic:
        response = await topic.request("Metadata", 9, topics=[{"name": topic.name}])
        replicas = response.body["topics"][0]["partitions"][0]["replica_nodes"]
        other_brokers = [broker for broker in response.body["brokers"] if broker["node_id"] not in replicas]
        if not other_brokers:
            raise CheckSkipped("there is only one broker")
        non_replica = replace(target, address=TcpAddress(other_brokers[0]["host"], other_brokers[0]["port"]))
        async with non_replica.connection() as connection:
            remote_topic = replace(topic, target=non_replica, connection=connection)
            for send, description in (
                (partial(remote_topic.produce, batch(b"x")), "Produce"), (remote_topic.fetch, "Fetch"),
                (partial(remote_topic.offset, -1), "ListOffsets"),
            ):  # fmt: skip
                partition = await poll_until(
                    target, send, lambda partition: partition["error_code"] != Error.UNKNOWN_TOPIC_OR_PARTITION
                )
                description += f" at broker {other_brokers[0]['node_id']}, which is not a replica,"
                expect(partition["error_code"], Error.NOT_LEADER_OR_FOLLOWER, description)


async def _check_offsets(target: Target, first_version: int, expected: Mapping[int, tuple[int, int | None]]) -> None:
    """Check the offset and timestamp returned for special timestamps in every version from `first_version` on.

    An expected timestamp of None is not checked.
    """
    newest = target.version("ListOffsets", first_version)
    lowest = target.served[ApiKey.LIST_OFFSETS][0]
    async with scratch_topic(target) as topic:
        for written_at in _TIMES:
            data = records.encode([{"records": [{"key": None, "value": b"v", "timestamp": written_at}]}])
            expect((await topic.produce(data))["error_code"], Error.NONE, "Produce")
        for version in range(max(lowest, first_version), newest + 1):
            for timestamp, (offset, expected_timestamp) in expected.items():
                description = f"ListOffsets v{version} of timestamp {timestamp}"
                result = await topic.offset(timestamp, version)
                expect(result["error_code"], Error.NONE, description)
                if result["offset"] != offset or expected_timestamp not in (None, result["timestamp"]):
                    raise CheckFailed(
                        f"{description} returns offset {result['offset']} and timestamp {result['timestamp']} instead "
                        "of offset "
                        f"{offset}" + ("" if expected_timestamp is None else f" and timestamp {expected_timestamp}")
                    )
