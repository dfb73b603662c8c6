"""Responses that differ between releases of Kafka. The expected ones come from real brokers of these releases."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from dissectors.schemas.lines import line, lines
from kproxy.broker.errors import Error
from tests.kproxy.broker.socket_client import SocketClient, broker_client

CREATE_TOPICS, FIND_COORDINATOR = 19, 10
GROUP, TRANSACTION, SHARE = range(3)
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


async def create_topic(
    client: SocketClient, version: int, name: str, partitions: int, factor: int
) -> tuple[int, str | None]:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": factor, "assignments": [], "configs": []}
    [result] = (await client("CreateTopics", version, {"topics": [topic], "timeout_ms": 1000}))["topics"]
    return result["error_code"], result.get("error_message")


@pytest.mark.parametrize("release", [release for release in lines() if CREATE_TOPICS in line(release).served])
async def test_create_topics_has_defaults_in_every_version_since_2_4(release: str) -> None:
    lowest, highest = line(release).served[CREATE_TOPICS]
    has_defaults = line(release).is_at_least("2.4")
    async with broker_client(release=release, configs={"num.partitions": "3"}) as client:
        for version in range(lowest, highest + 1):
            default_both, partitions, factor = [
                (await create_topic(client, version, f"{name}{version}", *counts))[0]
                for name, counts in {"both": (-1, -1), "partitions": (-1, 1), "factor": (2, -1)}.items()
            ]
            no_partitions, no_factor = Error.INVALID_PARTITIONS, Error.INVALID_REPLICATION_FACTOR
            expected = (0, 0, 0) if has_defaults else (no_partitions, no_partitions, no_factor)
            assert (default_both, partitions, factor) == expected, version
        partition_counts = {
            topic["name"]: len(topic["partitions"])
            for topic in (await client("Metadata", 1, {"topics": None}))["topics"]
        }
        versions = range(lowest, highest + 1) if has_defaults else ()
        sizes = {"both": 3, "partitions": 3, "factor": 2}
        assert partition_counts == {f"{name}{version}": size for name, size in sizes.items() for version in versions}


@pytest.mark.parametrize("release", ["2.3", "2.4", "4.3"])
async def test_create_topics_rejects_0_and_minus_2_as_counts(release: str) -> None:
    version = line(release).served[CREATE_TOPICS][0]
    async with broker_client(release=release) as client:
        for count in (0, -2):
            assert (await create_topic(client, version, "a", count, 1))[0] == Error.INVALID_PARTITIONS
            assert (await create_topic(client, version, "a", 1, count))[0] == Error.INVALID_REPLICATION_FACTOR


async def find_coordinator(client: SocketClient, version: int, key_type: int, key: str) -> Mapping[str, Any]:
    body = {"key_type": key_type} | ({"key": key} if version < 4 else {"coordinator_keys": [key]})
    response = await client("FindCoordinator", version, body)
    coordinator: Mapping[str, Any] = response if version < 4 else response["coordinators"][0]
    return coordinator


@pytest.mark.parametrize("release", [release for release in lines() if FIND_COORDINATOR in line(release).served])
async def test_find_coordinator_returns_the_error_message_of_the_release_on_success(release: str) -> None:
    highest = line(release).served[FIND_COORDINATOR][1]
    old_version_message = "NONE" if line(release).is_at_least("2.3") else None
    async with broker_client(release=release) as client:
        for version in range(1, highest + 1):
            for kind in (GROUP, TRANSACTION):
                coordinator = await find_coordinator(client, version, kind, "name")
                assert (coordinator["error_code"], coordinator["node_id"]) == (0, 1)
                assert coordinator["error_message"] == (old_version_message if version < 4 else "")


async def test_find_coordinator_accepts_an_empty_key() -> None:
    async with broker_client() as client:
        for version in range(7):
            for kind in (GROUP, TRANSACTION)[: 1 if version == 0 else 2]:
                assert (await find_coordinator(client, version, kind, ""))["error_code"] == 0


async def test_find_coordinator_rejects_invalid_keys_as_kafka_does() -> None:
    async with broker_client() as client:
        for version in range(1, 7):
            unknown_type_response = await find_coordinator(client, version, 7, "x")
            assert (unknown_type_response["error_code"], unknown_type_response["error_message"]) == (
                Error.INVALID_REQUEST,
                MALFORMED,
            )
            for key in ("group:AAAAAAAAAAAAAAAAAAAAAQ:0", "group"):
                coordinator = await find_coordinator(client, version, SHARE, key)
                if version == 6 and key.endswith(":0"):
                    assert (coordinator["error_code"], coordinator["error_message"]) == (0, "")
                else:
                    message = MALFORMED if version < 4 else ""
                    assert (coordinator["error_code"], coordinator["error_message"]) == (Error.INVALID_REQUEST, message)


@pytest.mark.parametrize(
    ("release", "error"),
    [("2.2", None), ("2.3", Error.UNKNOWN_SERVER_ERROR), ("2.7", Error.UNKNOWN_SERVER_ERROR), ("2.8", 42)],
)
async def test_older_releases_fail_on_an_unknown_coordinator_type(release: str, error: int | None) -> None:
    reports: list[str] = []
    async with broker_client(release=release, reports=reports) as client:
        if error is None:
            with pytest.raises(asyncio.IncompleteReadError):
                await find_coordinator(client, 1, 7, "x")
        else:
            assert (await find_coordinator(client, 1, 7, "x"))["error_code"] == error
