"""Where releases of Kafka answer differently; the expected answers are those of real brokers of these releases."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from dissectors.schemas.lines import line, lines
from kproxy.broker.errors import Error
from tests.kproxy.broker.socket_client import Asking, asked

CREATE_TOPICS, FIND_COORDINATOR = 19, 10
GROUP, TRANSACTION, SHARE = range(3)
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


async def create(ask: Asking, version: int, name: str, partitions: int, factor: int) -> tuple[int, str | None]:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": factor, "assignments": [], "configs": []}
    [answer] = (await ask("CreateTopics", version, {"topics": [topic], "timeout_ms": 1000}))["topics"]
    return answer["error_code"], answer.get("error_message")


@pytest.mark.parametrize("release", [each for each in lines() if CREATE_TOPICS in line(each).served])
async def test_create_topics_has_defaults_in_every_version_since_2_4(release: str) -> None:
    lowest, highest = line(release).served[CREATE_TOPICS]
    since = line(release).since("2.4")
    async with asked(release=release, configs={"num.partitions": "3"}) as ask:
        for version in range(lowest, highest + 1):
            both, partitions, factor = [
                (await create(ask, version, f"{name}{version}", *counts))[0]
                for name, counts in {"both": (-1, -1), "partitions": (-1, 1), "factor": (2, -1)}.items()
            ]
            no_partitions, no_factor = Error.INVALID_PARTITIONS, Error.INVALID_REPLICATION_FACTOR
            expected = (0, 0, 0) if since else (no_partitions, no_partitions, no_factor)
            assert (both, partitions, factor) == expected, version
        made = {
            topic["name"]: len(topic["partitions"]) for topic in (await ask("Metadata", 1, {"topics": None}))["topics"]
        }
        versions = range(lowest, highest + 1) if since else ()
        sizes = {"both": 3, "partitions": 3, "factor": 2}
        assert made == {f"{name}{version}": size for name, size in sizes.items() for version in versions}


@pytest.mark.parametrize("release", ["2.3", "2.4", "4.3"])
async def test_create_topics_refuses_counts_below_one_that_are_not_minus_one(release: str) -> None:
    version = line(release).served[CREATE_TOPICS][0]
    async with asked(release=release) as ask:
        for count in (0, -2):
            assert (await create(ask, version, "a", count, 1))[0] == Error.INVALID_PARTITIONS
            assert (await create(ask, version, "a", 1, count))[0] == Error.INVALID_REPLICATION_FACTOR


async def find(ask: Asking, version: int, kind: int, key: str) -> Mapping[str, Any]:
    body = {"key_type": kind} | ({"key": key} if version < 4 else {"coordinator_keys": [key]})
    answer = await ask("FindCoordinator", version, body)
    found: Mapping[str, Any] = answer if version < 4 else answer["coordinators"][0]
    return found


@pytest.mark.parametrize("release", [each for each in lines() if FIND_COORDINATOR in line(each).served])
async def test_find_coordinator_says_in_words_that_nothing_is_wrong(release: str) -> None:
    highest = line(release).served[FIND_COORDINATOR][1]
    of_old_versions = "NONE" if line(release).since("2.3") else None
    async with asked(release=release) as ask:
        for version in range(1, highest + 1):
            for kind in (GROUP, TRANSACTION):
                found = await find(ask, version, kind, "name")
                assert (found["error_code"], found["node_id"]) == (0, 1)
                assert found["error_message"] == (of_old_versions if version < 4 else "")


async def test_find_coordinator_takes_the_empty_name() -> None:
    async with asked() as ask:
        for version in range(7):
            for kind in (GROUP, TRANSACTION)[: 1 if version == 0 else 2]:
                assert (await find(ask, version, kind, ""))["error_code"] == 0


async def test_find_coordinator_refuses_what_it_cannot_find_as_kafka_does() -> None:
    async with asked() as ask:
        for version in range(1, 7):
            unknown = await find(ask, version, 7, "x")
            assert (unknown["error_code"], unknown["error_message"]) == (Error.INVALID_REQUEST, MALFORMED)
            for key in ("group:AAAAAAAAAAAAAAAAAAAAAQ:0", "group"):
                share = await find(ask, version, SHARE, key)
                if version == 6 and key.endswith(":0"):
                    assert (share["error_code"], share["error_message"]) == (0, "")
                else:
                    message = MALFORMED if version < 4 else ""
                    assert (share["error_code"], share["error_message"]) == (Error.INVALID_REQUEST, message)


@pytest.mark.parametrize(
    ("release", "error"),
    [("2.2", None), ("2.3", Error.UNKNOWN_SERVER_ERROR), ("2.7", Error.UNKNOWN_SERVER_ERROR), ("2.8", 42)],
)
async def test_older_releases_fail_at_a_kind_of_coordinator_that_they_do_not_know(
    release: str, error: int | None
) -> None:
    said: list[str] = []
    async with asked(release=release, said=said) as ask:
        if error is None:
            with pytest.raises(asyncio.IncompleteReadError):
                await find(ask, 1, 7, "x")
        else:
            assert (await find(ask, 1, 7, "x"))["error_code"] == error
