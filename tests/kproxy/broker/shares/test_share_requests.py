from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dissectors.wire.layout import NULL_UUID
from kproxy.broker.change_signal import wait_for_any
from kproxy.broker.errors import Error
from kproxy.broker.features import Features
from kproxy.broker.shares.shares import SharePartitions
from kproxy.broker.topics import Topics
from kproxy.broker.transactions import Transactions
from tests.kproxy.broker.broker_watch import Step, watch_steps
from tests.kproxy.broker.data_requests import append_transactional, batch, log_of, offsets, produce, topic_id
from tests.kproxy.broker.socket_client import SocketClient, broker_client

CONFIGS = {"group.share.record.lock.duration.ms": "60000"}
ACCEPT, RELEASE, RENEW = 1, 2, 4
Acknowledgements = Sequence[tuple[int, int, list[int]]]


class Member:
    """A member of the share group ``g`` that reads ``t-0``."""

    def __init__(self, client: SocketClient, name: str = "m1") -> None:
        self.client = client
        self.name = name
        self.epoch = 0

    async def join(self) -> None:
        """Join the group, and let it start at the earliest offset."""
        config = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        resource = {"resource_type": 32, "resource_name": "g", "configs": [config]}
        await self.client("IncrementalAlterConfigs", 1, {"resources": [resource]})
        assert (await self.heartbeat(0, ["t"]))["error_code"] == 0

    async def heartbeat(self, epoch: int, topics: list[str] | None = None) -> Any:
        """Send a heartbeat; return the response."""
        return await self.client("ShareGroupHeartbeat", 1, share_heartbeat(self.name, epoch, topics))

    def share_fetch_request(self, acknowledgements: Acknowledgements = (), **fields: Any) -> dict[str, Any]:
        """Return a ShareFetch request that does not wait."""
        return {
            "group_id": "g",
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": topics(topic_id(self.client, "t"), acknowledgements),
        } | fields

    async def fetch(
        self, acknowledgements: Acknowledgements = (), *, version: int = 2, **fields: Any
    ) -> Mapping[str, Any]:
        """Send a ShareFetch; return the response for the partition, or the whole response if it has none."""
        response = await self.client("ShareFetch", version, self.share_fetch_request(acknowledgements, **fields))
        self.epoch += response["error_code"] == 0
        return dict(response["responses"][0]["partitions"][0] if response["responses"] else response)

    async def acquire(self, acknowledgements: Acknowledgements = (), **fields: Any) -> list[tuple[int, int, int]]:
        """Fetch; return the first offset, last offset and delivery count of each acquired run."""
        response = await self.fetch(acknowledgements, **fields)
        return [tuple(record.values()) for record in response.get("acquired_records", ())]

    async def acknowledge(
        self, acknowledgements: Acknowledgements, *, version: int = 2, **fields: Any
    ) -> Mapping[str, Any]:
        """Send a ShareAcknowledge; return the response for the partition, or the whole response if it has none."""
        identity = {"group_id": "g", "member_id": self.name, "share_session_epoch": self.epoch}
        request = identity | {"topics": topics(topic_id(self.client, "t"), acknowledgements)} | fields
        response = await self.client("ShareAcknowledge", version, request)
        self.epoch += response["error_code"] == 0
        return dict(response["responses"][0]["partitions"][0] if response["responses"] else response)


def share_heartbeat(member: str, epoch: int, names: list[str] | None = None) -> dict[str, Any]:
    return {
        "group_id": "g",
        "member_id": member,
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": names,
    }


def topics(topic: str, acknowledgements: Acknowledgements) -> list[dict[str, Any]]:
    batches = [{"first_offset": a, "last_offset": b, "acknowledge_types": types} for a, b, types in acknowledgements]
    return [{"topic_id": topic, "partitions": [{"partition_index": 0, "acknowledgement_batches": batches}]}]


async def describe_offsets(client: SocketClient, group: str = "g", version: int = 1) -> list[Mapping[str, Any]]:
    body = {"groups": [{"group_id": group, "topics": None}]}
    [group_] = (await client("DescribeShareGroupOffsets", version, body))["groups"]
    return [partition for topic in group_["topics"] for partition in topic["partitions"]]


@pytest.mark.parametrize("version", [1, 2])
async def test_records_are_acquired_and_acknowledged(version: int) -> None:
    async with broker_client(topics={"t": 1}, configs=CONFIGS) as client:
        member = Member(client)
        await member.join()
        await produce(client, batch(3))
        response = await member.fetch(version=version)
        assert offsets(dict(response)) == [0, 1, 2]
        assert response["acquired_records"] == [{"first_offset": 0, "last_offset": 2, "delivery_count": 1}]
        assert (await member.acknowledge([(0, 1, [ACCEPT])], version=version))["error_code"] == 0
        await produce(client, batch(1))
        response = await member.fetch([(2, 2, [ACCEPT])], version=version)
        assert response["acknowledge_error_code"] == 0
        assert offsets(dict(response)) == [3]
        [partition] = await describe_offsets(client)
        assert (partition["start_offset"], partition["lag"]) == (2, 1)


async def test_share_fetch_waits_for_records() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        await member.join()
        other = client.second_client()
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            pending_fetch = tasks.create_task(member.acquire(max_wait_ms=10_000))
            await asyncio.sleep(0.05)
            await produce(other, batch(2))
        assert pending_fetch.result() == [(0, 1, 1)]
        await other.hang_up()


async def test_share_fetch_waits_for_released_records() -> None:
    async with broker_client(topics={"t": 1}) as client:
        first, second = Member(client), Member(client.second_client(), "m2")
        await first.join()
        await produce(client, batch(2))
        assert await first.acquire() == [(0, 1, 1)]
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            pending_fetch = tasks.create_task(second.acquire(max_wait_ms=10_000))
            await asyncio.sleep(0.05)
            await client.hang_up()
        assert pending_fetch.result() == [(0, 1, 2)]
        await second.client.hang_up()


async def test_pending_fetch_fails_when_its_session_is_replaced() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member, replacement = Member(client), Member(client.second_client())
        await member.join()
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            pending_fetch = tasks.create_task(member.fetch(max_wait_ms=10_000))
            await asyncio.sleep(0.05)
            await replacement.fetch()
            await produce(replacement.client, batch(2))
        assert pending_fetch.result()["error_code"] == Error.SHARE_SESSION_NOT_FOUND
        assert await replacement.acquire() == [(0, 1, 1)]
        await replacement.client.hang_up()


async def test_disconnect_releases_only_records_of_that_broker() -> None:
    async with broker_client(brokers=2, topics={"t": 2}) as client:
        member, topic = Member(client), client.broker.cluster.part(Topics).by_name("t")
        assert topic is not None
        for node in (1, 2):  # one of them is the coordinator
            await client("ShareGroupHeartbeat", 1, share_heartbeat("m1", 0, ["t"]), node=node)
        requested = topics(topic.id, [])
        requested[0]["partitions"].append({"partition_index": 1, "acknowledgement_batches": []})
        share_partitions = []
        for partition in topic.partitions:
            await client("ShareFetch", 2, member.share_fetch_request(topics=requested), node=partition.leader)
            await produce(client, batch(1), partition=partition.index, node=partition.leader)
            next_request = member.share_fetch_request(topics=[], share_session_epoch=1)
            await client("ShareFetch", 2, next_request, node=partition.leader)
            share_partition = client.broker.cluster.part(SharePartitions).find_open("g", partition)
            assert share_partition is not None
            assert share_partition.next_offset == 1
            share_partitions.append(share_partition)
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            tasks.create_task(wait_for_any([share_partitions[0].changed], 5000))
            await client.hang_up(topic.partitions[0].leader)
        assert [share_partition.next_offset for share_partition in share_partitions] == [0, 1]


async def test_closing_a_session_releases_its_records() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        await member.join()
        await produce(client, batch(2))
        await member.acquire()
        assert (await member.acknowledge([(0, 0, [ACCEPT])], share_session_epoch=-1))["error_code"] == 0
        assert (await member.fetch())["error_code"] == Error.SHARE_SESSION_NOT_FOUND
        member.epoch = 0
        assert await member.acquire() == [(1, 1, 2)]


async def test_final_fetch_acknowledges_and_releases_the_remaining_records() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        await member.join()
        await produce(client, batch(3))
        await member.acquire()
        response = await member.fetch([(0, 1, [ACCEPT])], share_session_epoch=-1)
        assert (response["acknowledge_error_code"], response["records"]) == (0, b"")
        assert await Member(client, "m2").acquire() == [(2, 2, 2)]


async def test_rejects_wrong_session_epochs() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        await member.join()
        assert (await member.acknowledge([], share_session_epoch=0))["error_code"] == Error.INVALID_SHARE_SESSION_EPOCH
        assert (await member.fetch(share_session_epoch=1))["error_code"] == Error.SHARE_SESSION_NOT_FOUND
        assert (await member.fetch([(0, 0, [ACCEPT])]))["error_code"] == Error.INVALID_REQUEST
        await member.fetch()
        assert (await member.fetch(share_session_epoch=2))["error_code"] == Error.INVALID_SHARE_SESSION_EPOCH
        assert "responses" in await member.fetch(), "nothing is new"


async def test_limits_the_number_of_sessions() -> None:
    async with broker_client(topics={"t": 1}, configs={"group.share.max.share.sessions": "1"}) as client:
        await Member(client).join()
        assert (await Member(client).fetch())["error_code"] == 0
        assert (await Member(client, "m2").fetch(max_wait_ms=1))["error_code"] == Error.SHARE_SESSION_LIMIT_REACHED


async def test_renewal_requires_the_renew_flag() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        await member.join()
        await produce(client, batch(2))
        await member.acquire()
        assert (await member.acknowledge([(0, 0, [RENEW])]))["error_code"] == Error.INVALID_REQUEST
        assert (await member.acknowledge([(0, 0, [RENEW])], is_renew_ack=True))["error_code"] == 0
        refused = await member.fetch([(0, 0, [RENEW])], is_renew_ack=True)
        assert refused["error_code"] == Error.INVALID_REQUEST
        response = await member.fetch([(1, 1, [RENEW])], is_renew_ack=True, max_bytes=0, min_bytes=0, max_records=0)
        assert response["acknowledge_error_code"] == 0
        assert (await member.acknowledge([(0, 1, [ACCEPT])]))["error_code"] == 0


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": None}, Error.INVALID_REQUEST),
        ({"member_id": None}, Error.INVALID_REQUEST),
        ({"member_id": ""}, Error.INVALID_REQUEST),
        ({"member_id": "x" * 37}, Error.INVALID_REQUEST),
        ({"share_session_epoch": -7}, Error.SHARE_SESSION_NOT_FOUND),
    ],
)
async def test_rejects_invalid_share_fetches(fields: dict[str, Any], error: Error) -> None:
    async with broker_client(topics={"t": 1}) as client:
        assert (await Member(client).fetch(**fields))["error_code"] == error
        assert (
            await Member(client).acknowledge(
                [],
                share_session_epoch=fields.get("share_session_epoch", 1),
                **{name: value for name, value in fields.items() if name != "share_session_epoch"},
            )
        )["error_code"] == error


@pytest.mark.parametrize(
    "fields",
    [
        {"max_records": -1},
        {"max_records": 2**31 - 1, "batch_size": 0},
        {"batch_size": -1},
        {"max_bytes": -1},
        {"min_bytes": -(2**31)},
        {"max_wait_ms": -(2**31)},
        {"share_acquire_mode": 77},
        {"forgotten_topics_data": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAQQ", "partitions": [-1, 2**31 - 1]}]},
    ],
)
async def test_accepts_out_of_range_numbers(fields: dict[str, Any]) -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        await member.join()
        await produce(client, batch(2))
        assert (await member.fetch(**fields))["error_code"] == 0


async def test_rejects_unknown_partitions() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        await member.join()
        null_id = topics(NULL_UUID, [])
        unknown_id = topics("AAAAAAAAAAAAAAAAAAAAQQ", [])
        unknown_partition = topics(topic_id(client, "t"), [])
        unknown_partition[0]["partitions"][0]["partition_index"] = -1
        for requested, error in (
            (null_id, Error.UNKNOWN_TOPIC_ID),
            (unknown_id, Error.UNKNOWN_TOPIC_ID),
            (unknown_partition, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            assert (await member.fetch(topics=requested, share_session_epoch=0))["error_code"] == error
            member.epoch = 1
            assert (await member.acknowledge([], topics=requested))["error_code"] == error


async def test_response_names_the_leader_of_a_partition() -> None:
    async with broker_client(brokers=2, topics={"t": 1}) as client:
        member = Member(client)
        coordinators = await client("FindCoordinator", 6, {"key_type": 0, "coordinator_keys": ["g"]})
        node = coordinators["coordinators"][0]["node_id"]
        await client("ShareGroupHeartbeat", 1, share_heartbeat("m1", 0, ["t"]), node=node)
        partition = client.broker.cluster.part(Topics).partition("t", 0)
        assert partition is not None
        other_node = 3 - partition.leader
        response = await client("ShareFetch", 2, member.share_fetch_request(), node=other_node)
        [result] = response["responses"][0]["partitions"]
        assert result["error_code"] == Error.NOT_LEADER_OR_FOLLOWER
        assert result["current_leader"]["leader_id"] == partition.leader
        assert [endpoint["node_id"] for endpoint in response["node_endpoints"]] == [partition.leader]
        heartbeat = await client("ShareGroupHeartbeat", 1, share_heartbeat("m1", 2), node=3 - node)
        assert heartbeat["error_code"] == Error.NOT_COORDINATOR


async def test_skips_records_of_aborted_transactions() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        await member.join()
        config = {"name": "share.isolation.level", "config_operation": 0, "value": "read_committed"}
        resource = {"resource_type": 32, "resource_name": "g", "configs": [config]}
        await client("IncrementalAlterConfigs", 1, {"resources": [resource]})
        await produce(client, batch(1))
        append_transactional(client, 5)
        await produce(client, batch(1))
        assert await member.acquire() == [(0, 0, 1)], "the transaction is open"
        log_of(client).append_marker(5, 0, 0, commit=False)
        assert await member.acquire() == [(3, 4, 1)]
        await member.acknowledge([(0, 0, [ACCEPT]), (3, 4, [ACCEPT])])
        assert (await member.acquire()) == []
        client.broker.cluster.part(Transactions).close()


async def test_describes_lists_and_deletes_share_groups() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        await member.join()
        [group] = (await client("ShareGroupDescribe", 1, {"group_ids": ["g"]}))["groups"]
        assert (group["group_state"], group["assignor_name"], group["group_epoch"]) == ("Stable", "simple", 2)
        assert group["members"][0]["assignment"]["topic_partitions"][0]["topic_name"] == "t"
        [listed] = (await client("ListGroups", 5, {"states_filter": [], "types_filter": ["share"]}))["groups"]
        assert (listed["group_type"], listed["protocol_type"]) == ("share", "share")
        [deleted] = (await client("DeleteGroups", 2, {"groups_names": ["g"]}))["results"]
        assert deleted["error_code"] == Error.NON_EMPTY_GROUP
        await member.heartbeat(-1)
        [deleted] = (await client("DeleteGroups", 2, {"groups_names": ["g"]}))["results"]
        assert deleted["error_code"] == 0
        groups = (await client("ShareGroupDescribe", 1, {"group_ids": ["g", ""]}))["groups"]
        assert [group["error_code"] for group in groups] == [Error.GROUP_ID_NOT_FOUND, Error.INVALID_GROUP_ID]
        assert await describe_offsets(client) == []


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": ""}, Error.INVALID_REQUEST),
        ({"member_id": "x" * 37}, Error.INVALID_REQUEST),
        ({"group_id": ""}, Error.INVALID_REQUEST),
        ({"rack_id": " "}, Error.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, Error.INVALID_REQUEST),
        ({"subscribed_topic_names": []}, Error.INVALID_REQUEST),
        ({"member_epoch": -2}, Error.INVALID_REQUEST),
        ({"member_epoch": 1}, Error.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, Error.GROUP_ID_NOT_FOUND),
    ],
)
async def test_rejects_invalid_share_group_heartbeats(fields: dict[str, Any], error: Error) -> None:
    async with broker_client(topics={"t": 1}) as client:
        response = await client("ShareGroupHeartbeat", 1, share_heartbeat("m", 0, ["t"]) | fields)
        assert response["error_code"] == error


async def test_alters_and_deletes_offsets_of_a_group() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        await produce(client, batch(5))
        partitions = [{"partition_index": index, "start_offset": offset} for index, offset in ((0, 2), (1, 0), (0, -5))]
        alteration = {"group_id": "g", "topics": [{"topic_name": "t", "partitions": partitions}]}
        response = await client("AlterShareGroupOffsets", 0, alteration)
        errors = [partition["error_code"] for partition in response["responses"][0]["partitions"]]
        assert errors == [0, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_REQUEST]
        [partition] = await describe_offsets(client)
        assert (partition["start_offset"], partition["lag"]) == (2, 3)
        [old_response] = await describe_offsets(client, version=0)
        assert old_response["start_offset"] == 2
        await member.join()
        assert await member.acquire() == [(2, 4, 1)]
        deletion = {"group_id": "g", "topics": [{"topic_name": "t"}, {"topic_name": "u"}]}
        assert (await client("AlterShareGroupOffsets", 0, alteration))["error_code"] == Error.NON_EMPTY_GROUP
        assert (await client("DeleteShareGroupOffsets", 0, deletion))["error_code"] == Error.NON_EMPTY_GROUP
        await member.heartbeat(-1)
        response = await client("DeleteShareGroupOffsets", 0, deletion)
        assert [result["error_code"] for result in response["responses"]] == [0, Error.UNKNOWN_TOPIC_OR_PARTITION]
        response = await client("DeleteShareGroupOffsets", 0, deletion)
        assert response["responses"][0]["error_message"] == "There is no offset information to delete."
        for name in ("AlterShareGroupOffsets", "DeleteShareGroupOffsets"):
            assert (await client(name, 0, {"group_id": ""}))["error_code"] == Error.INVALID_GROUP_ID
        unknown_group = {"group_id": "nobody", "topics": []}
        assert (await client("DeleteShareGroupOffsets", 0, unknown_group))["error_code"] == Error.GROUP_ID_NOT_FOUND


async def test_unknown_offsets_are_minus_1() -> None:
    async with broker_client(topics={"t": 1}) as client:
        requested_topics = [{"topic_name": "t", "partitions": [0, 9]}, {"topic_name": "u", "partitions": [3]}]
        request = {"groups": [{"group_id": "g", "topics": requested_topics}]}
        [group] = (await client("DescribeShareGroupOffsets", 1, request))["groups"]
        assert group["error_code"] == 0
        offset_rows = [
            (partition["partition_index"], partition["start_offset"], partition["lag"])
            for topic in group["topics"]
            for partition in topic["partitions"]
        ]
        assert offset_rows == [(0, -1, -1), (9, -1, -1), (3, -1, -1)]


async def test_group_survives_a_restart(tmp_path: Any) -> None:
    async with broker_client(topics={"t": 1}, data=tmp_path) as client:
        member = Member(client)
        await member.join()
        await produce(client, batch(3))
        await member.acquire()
        await member.acknowledge([(0, 0, [ACCEPT]), (1, 1, [RELEASE])])
    async with broker_client(data=tmp_path) as client:
        member = Member(client)
        assert (await member.heartbeat(2))["error_code"] == 0
        assert await member.acquire() == [(1, 1, 2), (2, 2, 1)]


async def test_share_requests_fail_if_the_feature_is_disabled() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        client.broker.cluster.part(Features).finalize("share.version", 0)
        description = await client("DescribeShareGroupOffsets", 1, {"groups": [{"group_id": "g", "topics": None}]})
        responses = [
            await member.heartbeat(0, ["t"]),
            await member.fetch(),
            await member.acknowledge([]),
            (await client("ShareGroupDescribe", 1, {"group_ids": ["g"]}))["groups"][0],
            description["groups"][0],
            await client("AlterShareGroupOffsets", 0, {"group_id": "g"}),
            await client("DeleteShareGroupOffsets", 0, {"group_id": "g"}),
        ]
        assert [response["error_code"] for response in responses] == [Error.UNSUPPORTED_VERSION] * len(responses)


async def test_kproxy_has_no_warnings_about_share_requests() -> None:
    async with broker_client(topics={"t": 1}) as client:
        member = Member(client)
        fetch = member.share_fetch_request()
    create = {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 1000}
    del fetch["topics"]
    steps = [
        Step("CreateTopics", 7, create),
        Step("ShareGroupHeartbeat", 1, share_heartbeat("m1", 0, ["t"])),
        Step("ShareGroupHeartbeat", 1, share_heartbeat("m1", 2)),
        *(Step("ShareFetch", version, fetch) for version in (1, 2)),
        *(Step("ShareAcknowledge", v, {"group_id": "g", "member_id": "m1", "share_session_epoch": v}) for v in (1, 2)),
        Step("ShareGroupDescribe", 1, {"group_ids": ["g", "h"]}),
        Step("DescribeShareGroupOffsets", 1, {"groups": [{"group_id": "g", "topics": None}]}),
        Step("ShareGroupHeartbeat", 1, share_heartbeat("m1", -1)),
        Step("DeleteShareGroupOffsets", 0, {"group_id": "g", "topics": [{"topic_name": "t"}]}),
        Step("DeleteGroups", 2, {"groups_names": ["g"]}),
    ]
    assert [finding for finding in await watch_steps((), steps) if finding.severity != "info"] == []
