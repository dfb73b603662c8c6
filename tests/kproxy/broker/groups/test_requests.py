"""Groups through requests of every version."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kproxy.broker import access
from kproxy.broker.apis import consumer_group_describe, offset_fetch
from kproxy.broker.errors import Error
from kproxy.broker.groups import offset_rows
from tests.kproxy.broker.groups.classic_group import RANGE
from tests.kproxy.broker.groups.requests import (
    FIRST_HEARTBEAT,
    JOIN,
    UUID,
    commit,
    fetch_offsets,
    join,
    join_stable_group,
    offset_commit,
    topic_id,
    versions,
    wait_for_rebalance,
)
from tests.kproxy.broker.socket_client import broker_client


@pytest.mark.parametrize("version", versions("JoinGroup"))
async def test_join_group_works_in_every_version(version: int) -> None:
    async with broker_client() as client:
        body = await join(client, version)
        assert body["error_code"] == 0
        assert body["protocol_name"] == "range"
        assert UUID.fullmatch(body["member_id"].removeprefix("test-"))
        assert [member["member_id"] for member in body["members"]] == [body["leader"]] == [body["member_id"]]
        refused = await join(client, version, "nobody")
        assert refused["error_code"] == Error.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", versions("SyncGroup"))
async def test_sync_and_leave_work_in_every_version(version: int) -> None:
    async with broker_client() as client:
        member = (await join(client))["member_id"]
        member_fields = {"group_id": "g", "member_id": member, "generation_id": 1}
        protocol = {"protocol_type": "consumer", "protocol_name": "range"}
        assignments = [{"member_id": member, "assignment": b"all"}, {"member_id": "nobody", "assignment": b"x"}]
        synced = await client("SyncGroup", version, {**member_fields, **protocol, "assignments": assignments})
        assert (synced["error_code"], synced["assignment"]) == (0, b"all")
        heartbeat_version = min(version, 4)
        assert (await client("Heartbeat", heartbeat_version, member_fields))["error_code"] == 0
        wrong_generation = await client("Heartbeat", heartbeat_version, {**member_fields, "generation_id": 2})
        assert wrong_generation["error_code"] == Error.ILLEGAL_GENERATION
        leave_response = await client(
            "LeaveGroup", version, {**member_fields, "members": [{"member_id": member}, {"member_id": "nobody"}]}
        )
        assert leave_response["error_code"] == 0
        assert [member["error_code"] for member in leave_response.get("members", [])] in (
            [],
            [0, Error.UNKNOWN_MEMBER_ID],
        )
        second_response = await client("LeaveGroup", version, {**member_fields, "members": [{"member_id": member}]})
        assert Error.UNKNOWN_MEMBER_ID in (
            second_response["error_code"],
            *(member["error_code"] for member in second_response.get("members", [])),
        )


async def test_join_waits_for_the_other_members() -> None:
    async with broker_client() as client:
        first = await join_stable_group(client)
        other = client.second_client()
        await other.send("JoinGroup", 3, {**JOIN, "group_id": "g"})
        await wait_for_rebalance(client)
        heartbeat = await client("Heartbeat", 4, {"group_id": "g", "member_id": first, "generation_id": 1})
        assert heartbeat["error_code"] == Error.REBALANCE_IN_PROGRESS
        rejoin_response = await join(client, member_id=first)
        assert rejoin_response["generation_id"] == (await other.receive("JoinGroup", 3))["generation_id"] == 2
        await other.hang_up()


async def test_client_that_disconnects_while_joining_remains_a_member() -> None:
    async with broker_client() as client:
        first = await join_stable_group(client)
        other = client.second_client()
        await other.send("JoinGroup", 3, {**JOIN, "group_id": "g"})
        await wait_for_rebalance(client)
        await other.hang_up()
        assert len((await join(client, member_id=first))["members"]) == 2


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, Error.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, Error.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 2**31 - 1}, Error.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1}, Error.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, Error.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, Error.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_rejects_invalid_join_requests(fields: Mapping[str, Any], error: Error) -> None:
    async with broker_client() as client:
        assert (await join(client, **fields))["error_code"] == error


@pytest.mark.parametrize("version", versions("DescribeGroups"))
async def test_describe_groups_works_in_every_version(version: int) -> None:
    async with broker_client(topics={"t": 4}) as client:
        member = await join_stable_group(client)
        body = {"groups": ["g", "nobody's"], "include_authorized_operations": True}
        [group, dead] = (await client("DescribeGroups", version, body))["groups"]
        assert (group["group_state"], group["protocol_type"], group["protocol_data"]) == ("Stable", "consumer", "range")
        [described] = group["members"]
        assert (described["member_id"], described["client_host"]) == (member, "/127.0.0.1")
        assert (described["member_metadata"], described["member_assignment"]) == (RANGE["range"], b"all")
        assert dead["group_state"] == "Dead"
        assert dead["error_code"] == (Error.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert group.get("authorized_operations", 3400) == 0b110101001000


@pytest.mark.parametrize("version", versions("ListGroups"))
async def test_list_groups_works_in_every_version(version: int) -> None:
    async with broker_client(topics={"t": 4}) as client:
        await join_stable_group(client)
        await commit(client, 8, 1, group_id="simple")
        groups = {group["group_id"]: group for group in (await client("ListGroups", version))["groups"]}
        assert groups.keys() == {"g", "simple"}
        assert groups["g"].get("group_state", "Stable") == "Stable"
        assert groups["g"].get("group_type", "classic") == "classic"


async def test_list_groups_filters_by_state_and_type() -> None:
    async with broker_client(topics={"t": 4}) as client:
        await join_stable_group(client)
        await commit(client, 8, 1, group_id="simple")

        async def group_ids(**filters: list[str]) -> list[str]:
            return [group["group_id"] for group in (await client("ListGroups", 5, filters))["groups"]]

        assert await group_ids(states_filter=["stable "]) == ["g"]
        assert await group_ids(states_filter=["Empty", "Dead"]) == ["simple"]
        assert await group_ids(types_filter=["Classic"]) == ["g", "simple"]
        assert await group_ids(types_filter=["consumer", "nonsense"]) == []


@pytest.mark.parametrize("version", versions("DeleteGroups"))
async def test_delete_groups_works_in_every_version(version: int) -> None:
    async with broker_client(topics={"t": 4}) as client:
        await join_stable_group(client)
        await commit(client, 8, 1, group_id="simple")
        body = {"groups_names": ["g", "simple", "simple", "nobody's"]}
        results = (await client("DeleteGroups", version, body))["results"]
        assert [(group["group_id"], group["error_code"]) for group in results] == [
            ("g", Error.NON_EMPTY_GROUP),
            ("simple", 0),
            ("nobody's", Error.GROUP_ID_NOT_FOUND),
        ]
        assert (await fetch_offsets(client, 7, group="simple", all_topics=True))["topics"] == []


async def test_only_the_coordinator_serves_a_group_and_its_successor_keeps_the_offsets() -> None:
    async with broker_client(brokers=2, topics={"t": 4}) as client:
        [coordinator] = (await client("FindCoordinator", 4, {"coordinator_keys": ["g"]}))["coordinators"]
        coordinator_id, other_id = coordinator["node_id"], 3 - coordinator["node_id"]
        await client("OffsetCommit", 8, offset_commit(7), node=coordinator_id)
        for api, version, body in (
            ("JoinGroup", 9, {"group_id": "g", **JOIN}),
            ("SyncGroup", 3, {"group_id": "g"}),
            ("Heartbeat", 4, {"group_id": "g"}),
            ("LeaveGroup", 5, {"group_id": "g"}),
            ("OffsetDelete", 0, {"group_id": "g"}),
            ("OffsetFetch", 5, {"group_id": "g"}),
            ("ConsumerGroupHeartbeat", 0, {"group_id": "g", "member_id": "m", "member_epoch": 1}),
        ):
            assert (await client(api, version, body, node=other_id))["error_code"] == Error.NOT_COORDINATOR, api
        [topic] = (await client("OffsetCommit", 8, offset_commit(8), node=other_id))["topics"]
        assert topic["partitions"][0]["error_code"] == Error.NOT_COORDINATOR
        [topic] = (await client("TxnOffsetCommit", 3, offset_commit(8), node=other_id))["topics"]
        assert topic["partitions"][0]["error_code"] == Error.NOT_COORDINATOR
        for api, key in (("DescribeGroups", "groups"), ("ConsumerGroupDescribe", "group_ids")):
            [group] = (await client(api, 0, {key: ["g"]}, node=other_id))["groups"]
            assert group["error_code"] == Error.NOT_COORDINATOR, api
        [result] = (await client("DeleteGroups", 2, {"groups_names": ["g"]}, node=other_id))["results"]
        assert result["error_code"] == Error.NOT_COORDINATOR
        assert (await client("ListGroups", 5, node=other_id))["groups"] == []
        await client.broker.stop_node(coordinator_id)
        [topic] = (await client("OffsetFetch", 5, {"group_id": "g", "topics": None}, node=other_id))["topics"]
        assert topic["partitions"][0]["committed_offset"] == 7


@pytest.mark.parametrize("version", versions("ConsumerGroupHeartbeat"))
async def test_consumer_group_works_in_every_version(version: int) -> None:
    async with broker_client(topics={"t": 4}) as client:
        first = {**FIRST_HEARTBEAT, "member_id": "m" if version >= 1 else ""}
        joined = await client("ConsumerGroupHeartbeat", version, first)
        assert (joined["error_code"], joined["member_epoch"]) == (0, 2)
        assert joined["assignment"]["topic_partitions"] == [{"topic_id": topic_id(client), "partitions": [0, 1, 2, 3]}]
        member_fields = {"group_id": "g", "member_id": joined["member_id"], "topic_partitions": None}
        heartbeat = await client("ConsumerGroupHeartbeat", version, {**member_fields, "member_epoch": 2})
        assert (heartbeat["error_code"], heartbeat["assignment"]) == (0, None)
        [group] = (await client("ConsumerGroupDescribe", version, {"group_ids": ["g"]}))["groups"]
        assert (group["group_state"], group["group_epoch"], group["assignor_name"]) == ("Stable", 2, "uniform")
        [member] = group["members"]
        assert member["assignment"] == member["target_assignment"]
        assert member["assignment"]["topic_partitions"][0]["topic_name"] == "t"
        epoch = {"member_id": joined["member_id"], "member_epoch": 2}
        assert (await fetch_offsets(client, 9, **epoch))["error_code"] == 0
        wrong_epoch = await fetch_offsets(client, 9, **{**epoch, "member_epoch": 3})
        assert wrong_epoch["error_code"] == Error.STALE_MEMBER_EPOCH
        assert (await fetch_offsets(client, 9, **{**epoch, "member_id": "x"}))["error_code"] == Error.UNKNOWN_MEMBER_ID
        refused = await join(client, protocol_type="connect")
        assert refused["error_code"] == Error.INCONSISTENT_GROUP_PROTOCOL
        body = {"group_id": "g", "members": [{"member_id": joined["member_id"]}]}
        [removed] = (await client("LeaveGroup", 5, body))["members"]
        assert removed["error_code"] == 0
        refused_heartbeat = await client("ConsumerGroupHeartbeat", version, {**member_fields, "member_epoch": 2})
        assert refused_heartbeat["error_code"] == Error.UNKNOWN_MEMBER_ID
        assert (await join(client))["error_code"] == 0, "an empty group becomes a classic one"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, Error.INVALID_REQUEST),
        ({"member_id": ""}, Error.INVALID_REQUEST),
        ({"instance_id": ""}, Error.INVALID_REQUEST),
        ({"rack_id": " "}, Error.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, Error.INVALID_REQUEST),
        ({"topic_partitions": None}, Error.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, Error.INVALID_REQUEST),
        ({"subscribed_topic_regex": "("}, Error.INVALID_REGULAR_EXPRESSION),
        ({"server_assignor": "sticky"}, Error.UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": -2}, Error.INVALID_REQUEST),
        ({"member_epoch": -3}, Error.INVALID_REQUEST),
        ({"member_epoch": 1}, Error.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, Error.GROUP_ID_NOT_FOUND),
    ],
)
async def test_invalid_consumer_group_heartbeats_are_rejected(fields: Mapping[str, Any], error: Error) -> None:
    async with broker_client(topics={"t": 4}) as client:
        response = await client("ConsumerGroupHeartbeat", 1, {**FIRST_HEARTBEAT, **fields})
        assert response["error_code"] == error
        assert response["error_message"]
        assert (await client("ListGroups", 5))["groups"] == []


async def test_rejects_requests_about_unauthorized_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "is_allowed", lambda request, operation, kind, name: kind != "GROUP")
    async with broker_client(topics={"t": 4}) as client:
        assert (await join(client))["error_code"] == Error.GROUP_AUTHORIZATION_FAILED
        for api, version in (
            ("SyncGroup", 3),
            ("Heartbeat", 4),
            ("LeaveGroup", 5),
            ("OffsetDelete", 0),
            ("OffsetFetch", 5),
        ):
            response = await client(api, version, {"group_id": "g"})
            assert response["error_code"] == Error.GROUP_AUTHORIZATION_FAILED, api
        heartbeat = await client("ConsumerGroupHeartbeat", 1, FIRST_HEARTBEAT)
        assert heartbeat["error_code"] == Error.GROUP_AUTHORIZATION_FAILED
        assert await commit(client, 8, 1) == [Error.GROUP_AUTHORIZATION_FAILED] * 2
        for api, key in (("DescribeGroups", "groups"), ("ConsumerGroupDescribe", "group_ids")):
            [group] = (await client(api, 0, {key: ["g"]}))["groups"]
            assert group["error_code"] == Error.GROUP_AUTHORIZATION_FAILED, api
        [result] = (await client("DeleteGroups", 2, {"groups_names": ["g"]}))["results"]
        assert result["error_code"] == Error.GROUP_AUTHORIZATION_FAILED
        [topic] = (await fetch_offsets(client, 1))["topics"]
        assert {partition["error_code"] for partition in topic["partitions"]} == {Error.GROUP_AUTHORIZATION_FAILED}


async def test_rejects_requests_about_unauthorized_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker_client(topics={"t": 4}) as client:
        await commit(client, 8, 1)
        await client("ConsumerGroupHeartbeat", 1, {**FIRST_HEARTBEAT, "group_id": "c"})
        for module in (offset_rows, offset_fetch, consumer_group_describe, access):
            monkeypatch.setattr(module, "is_allowed", lambda request, operation, kind, name: kind != "TOPIC")
        assert await commit(client, 8, 1) == [Error.TOPIC_AUTHORIZATION_FAILED] * 2
        for version in (5, 10):
            [topic] = (await fetch_offsets(client, version))["topics"]
            assert {partition["error_code"] for partition in topic["partitions"]} == {Error.TOPIC_AUTHORIZATION_FAILED}
        assert (await fetch_offsets(client, 7, all_topics=True))["topics"] == []
        heartbeat = await client("ConsumerGroupHeartbeat", 1, FIRST_HEARTBEAT)
        assert heartbeat["error_code"] == Error.TOPIC_AUTHORIZATION_FAILED
        [group] = (await client("ConsumerGroupDescribe", 1, {"group_ids": ["c"]}))["groups"]
        assert (group["error_code"], group["members"]) == (Error.TOPIC_AUTHORIZATION_FAILED, [])


async def test_rejects_groups_of_a_different_type_or_without_a_name() -> None:
    async with broker_client(topics={"t": 4}) as client:
        await client("ConsumerGroupHeartbeat", 1, FIRST_HEARTBEAT)
        for api, version in (("SyncGroup", 3), ("Heartbeat", 4), ("LeaveGroup", 5)):
            assert (await client(api, version, {"group_id": ""}))["error_code"] == Error.INVALID_GROUP_ID, api
        for api in ("SyncGroup", "Heartbeat"):
            for group in ("g", "nobody's"):
                member_fields = {"group_id": group, "member_id": "m", "generation_id": 2}
                assert (await client(api, 3, member_fields))["error_code"] == Error.UNKNOWN_MEMBER_ID, api
        mandatory = {"group_id": "g", "member_id": "m", "generation_id": 2, "protocol_type": "consumer"}
        assert (await client("SyncGroup", 5, mandatory))["error_code"] == Error.INCONSISTENT_GROUP_PROTOCOL
        [described] = (await client("DescribeGroups", 6, {"groups": ["g"]}))["groups"]
        assert described["error_code"] == Error.GROUP_ID_NOT_FOUND
        await join_stable_group(client, "classic")
        body = {"group_ids": ["classic", "nobody's", ""], "include_authorized_operations": True}
        codes = [group["error_code"] for group in (await client("ConsumerGroupDescribe", 1, body))["groups"]]
        assert codes == [Error.GROUP_ID_NOT_FOUND, Error.GROUP_ID_NOT_FOUND, Error.INVALID_GROUP_ID]


async def test_null_in_a_non_nullable_field_closes_the_connection() -> None:
    async def send_null() -> None:
        async with broker_client() as client:
            await client.send_bytes(bytes.fromhex("000c 0003 00000001 0001 61 ffff 00000001 0001 61 ffff"))
            with pytest.raises(asyncio.IncompleteReadError):
                await client.receive("Heartbeat", 3)

    with pytest.raises(AssertionError, match="group_id: null where the protocol allows none"):
        await send_null()


async def test_request_for_too_many_groups_closes_the_connection() -> None:
    async def request_too_many_groups() -> None:
        async with broker_client() as client:
            await client.send("DescribeGroups", 5, {"groups": [""] * 200_001})
            with pytest.raises(asyncio.IncompleteReadError):
                await client.receive("DescribeGroups", 5)

    with pytest.raises(AssertionError, match="more than 200000 elements"):
        await request_too_many_groups()
