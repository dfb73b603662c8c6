"""Fetch sessions: the broker remembers the partitions, so that a Fetch only names what changes (KIP-227)."""

from __future__ import annotations

from dissectors.schemas.codes import Error
from kproxy.probe.check import CheckSkipped, check
from kproxy.probe.scratch import ScratchTopic, batch, expect, scratch_topic, values_of
from kproxy.probe.target import BrokerAnswer, Target

_FIRST, _NEWEST = 7, 11  # Fetch versions with sessions, and before topic ids
_UNKNOWN_SESSION = 0x7EADBEEF
_SOURCE = "server/src/main/java/org/apache/kafka/server/FetchSession.java"


@check("fetch-sessions/incremental", "KIP-227", _SOURCE, writes=True)
async def incremental(target: Target) -> None:
    """Within a session, an empty Fetch continues with its partitions, and lists only those with news.

    Consumers of many partitions depend on it: they take a missing partition for an unchanged one.
    """
    async with scratch_topic(target) as topic:
        session = await _begin(topic)
        idle = await _fetch(topic, session, 1)
        expect(idle.body["error_code"], Error.NONE, "Fetch with epoch 1")
        if idle.body["responses"]:
            raise idle.failed("a partition without news is in the response")
        expect((await topic.produce(batch(b"news")))["error_code"], Error.NONE, "Produce")
        news = await _fetch(topic, session, 2)
        expect(news.body["error_code"], Error.NONE, "Fetch with epoch 2")
        partitions = [partition for response in news.body["responses"] for partition in response["partitions"]]
        if [values_of(partition["records"]) for partition in partitions] != [[b"news"]]:
            raise news.failed("the session does not return the new record")


@check("fetch-sessions/unknown", "KIP-227", _SOURCE)
async def unknown(target: Target) -> None:
    """Fetch with an unknown session id returns FETCH_SESSION_ID_NOT_FOUND.

    Brokers forget sessions. Consumers begin a new one because of this error; any other looks like a failure.
    """
    version = min(_NEWEST, target.version("Fetch", _FIRST))
    async with target.connection() as connection:
        answer = await target.ask(connection, "Fetch", version, max_wait_ms=0, max_bytes=1000,
                                  session_id=_UNKNOWN_SESSION, session_epoch=1)  # fmt: skip
        expect(answer.body["error_code"], Error.FETCH_SESSION_ID_NOT_FOUND, "Fetch with an unknown session id")


@check("fetch-sessions/wrong-epoch", "KIP-227", _SOURCE, writes=True)
async def wrong_epoch(target: Target) -> None:
    """Fetch with another epoch than the next one returns INVALID_FETCH_SESSION_EPOCH.

    Otherwise broker and consumer could disagree about the partitions of the session after a lost response.
    """
    async with scratch_topic(target) as topic:
        session = await _begin(topic)
        answer = await _fetch(topic, session, 5)
        expect(answer.body["error_code"], Error.INVALID_FETCH_SESSION_EPOCH, "Fetch with epoch 5 after 0")


async def _begin(topic: ScratchTopic) -> int:
    """Begin a session with the topic's partition; returns its id."""
    topic.target.version("Fetch", _FIRST)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    answer = await _fetch(topic, 0, 0, topics=[{"topic": topic.name, "partitions": [partition]}])
    expect(answer.body["error_code"], Error.NONE, "Fetch with epoch 0")
    session: int = answer.body["session_id"]
    if not session:
        raise CheckSkipped("the broker does not begin a fetch session")
    return session


async def _fetch(topic: ScratchTopic, session: int, epoch: int, **values: object) -> BrokerAnswer:
    return await topic.ask("Fetch", _NEWEST, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_id=session,
                           session_epoch=epoch, **values)  # fmt: skip
