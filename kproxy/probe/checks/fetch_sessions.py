"""Fetch sessions: the broker remembers the partitions, so that a Fetch names only those that change (KIP-227)."""

from __future__ import annotations

from dissectors.schemas.codes import Error
from kproxy.probe.check import CheckSkipped, check
from kproxy.probe.scratch import ScratchTopic, batch, expect, scratch_topic, values_of
from kproxy.probe.target import BrokerResponse, Target

_FIRST_VERSION, _NEWEST_VERSION = 7, 11  # Fetch versions with sessions, and before topic ids
_UNKNOWN_SESSION = 0x7EADBEEF
_SOURCE = "server/src/main/java/org/apache/kafka/server/FetchSession.java"


@check("fetch-sessions/incremental", "KIP-227", _SOURCE, writes=True)
async def check_incremental_fetch(target: Target) -> None:
    """Within a session, an empty Fetch continues with its partitions, and lists only those with news.

    Consumers of many partitions depend on it: they treat a missing partition as unchanged.
    """
    async with scratch_topic(target) as topic:
        session_id = await _begin_session(topic)
        idle_response = await _fetch(topic, session_id, 1)
        expect(idle_response.body["error_code"], Error.NONE, "Fetch with epoch 1")
        if idle_response.body["responses"]:
            raise idle_response.failure("a partition without news is in the response")
        expect((await topic.produce(batch(b"news")))["error_code"], Error.NONE, "Produce")
        news_response = await _fetch(topic, session_id, 2)
        expect(news_response.body["error_code"], Error.NONE, "Fetch with epoch 2")
        partitions = [partition for response in news_response.body["responses"] for partition in response["partitions"]]
        if [values_of(partition["records"]) for partition in partitions] != [[b"news"]]:
            raise news_response.failure("the session does not return the new record")


@check("fetch-sessions/unknown", "KIP-227", _SOURCE)
async def check_unknown_session(target: Target) -> None:
    """Fetch with an unknown session id returns FETCH_SESSION_ID_NOT_FOUND.

    Brokers forget sessions. This error makes consumers begin a new one; any other looks like a failure.
    """
    version = min(_NEWEST_VERSION, target.version("Fetch", _FIRST_VERSION))
    async with target.connection() as connection:
        response = await target.request(connection, "Fetch", version, max_wait_ms=0, max_bytes=1000,
                                        session_id=_UNKNOWN_SESSION, session_epoch=1)  # fmt: skip
        expect(response.body["error_code"], Error.FETCH_SESSION_ID_NOT_FOUND, "Fetch with an unknown session id")


@check("fetch-sessions/wrong-epoch", "KIP-227", _SOURCE, writes=True)
async def check_wrong_epoch(target: Target) -> None:
    """Fetch with another epoch than the next one returns INVALID_FETCH_SESSION_EPOCH.

    Otherwise broker and consumer could disagree about the partitions of the session after a lost response.
    """
    async with scratch_topic(target) as topic:
        session_id = await _begin_session(topic)
        response = await _fetch(topic, session_id, 5)
        expect(response.body["error_code"], Error.INVALID_FETCH_SESSION_EPOCH, "Fetch with epoch 5 after 0")


async def _begin_session(topic: ScratchTopic) -> int:
    """Begin a session with the topic's partition, and return its id."""
    topic.target.version("Fetch", _FIRST_VERSION)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    response = await _fetch(topic, 0, 0, topics=[{"topic": topic.name, "partitions": [partition]}])
    expect(response.body["error_code"], Error.NONE, "Fetch with epoch 0")
    session_id: int = response.body["session_id"]
    if not session_id:
        raise CheckSkipped("the broker does not begin a fetch session")
    return session_id


async def _fetch(topic: ScratchTopic, session_id: int, epoch: int, **values: object) -> BrokerResponse:
    return await topic.request("Fetch", _NEWEST_VERSION, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
                               session_id=session_id,
                               session_epoch=epoch, **values)  # fmt: skip
