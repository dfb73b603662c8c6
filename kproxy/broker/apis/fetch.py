"""Fetch: returns batches of partitions that this broker has a replica of, or waits for them.

Waits until min_bytes are available, a partition has an error, or max_wait_ms have passed. Batches are never truncated,
except in versions before 3, where the first one may be. From version 11 on, clients may also read from followers.

Leaves out: replication by other brokers (they get NOT_LEADER_OR_FOLLOWER: all replicas share one log), diverging
epochs, snapshots, preferred read replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from kproxy.broker.change_signal import wait_for_any
from kproxy.broker.errors import ApiError
from kproxy.broker.fetching.partition_reader import PartitionRead, PartitionReader
from kproxy.broker.fetching.partition_request import PartitionRequest, forgotten_partitions, requested_partitions
from kproxy.broker.fetching.sessions import FetchContext, FetchSessions
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.throttling import FETCH, throttle
from kproxy.broker.topics import Topics

#: Kafka's broker config fetch.max.bytes.
_MAX_BYTES: Final = 55 << 20
_FIRST_VERSION_WITH_WHOLE_BATCHES: Final = 3  # request versions
_FIRST_VERSION_WITH_SESSIONS: Final = 7
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13


@api("Fetch")
async def fetch(request: Request) -> Body:
    """Respond immediately if there is enough data, else wait for it."""
    reader = PartitionReader(request)
    try:
        context = _fetch_context(request)
        reads = await _read_enough(request, reader, context.requested)
        if throttle_ms := throttle(request, FETCH, sum(read.size for read in reads)):
            return {"throttle_time_ms": throttle_ms, "session_id": context.session_id, "responses": []}
        limits = {partition.key: partition for partition in context.requested}
        for read in reads:
            _add_records(reader, read, limits[read.key])
        sent_keys = context.changed_results((read.key, read.result, bool(read.result["records"])) for read in reads)
    except ApiError as api_error:
        return {"error_code": api_error.error}
    topics = _group_by_topic(read for read in reads if read.key in sent_keys)
    return {"session_id": context.session_id, "responses": topics, "node_endpoints": reader.leaders.endpoints()}


def _fetch_context(request: Request) -> FetchContext:
    body = request.body
    if request.version < _FIRST_VERSION_WITH_SESSIONS:
        return FetchContext(requested_partitions(body).values(), None, full=True)
    return (
        request.cluster.part(FetchSessions)
        .for_node(request.node)
        .begin(
            body["session_id"],
            body["session_epoch"],
            requested_partitions(body),
            forgotten_partitions(body),
            request.cluster.clock.now(),
            by_topic_id=request.version >= _FIRST_VERSION_WITH_TOPIC_IDS,
        )
    )


async def _read_enough(
    request: Request, reader: PartitionReader, requested: Collection[PartitionRequest]
) -> list[PartitionRead]:
    """Return the partitions' data once there is enough or the time is up."""
    body, clock, topics = request.body, request.cluster.clock, request.cluster.part(Topics)
    max_bytes = min(body.get("max_bytes", _MAX_BYTES), _MAX_BYTES)
    deadline = clock.now() + body["max_wait_ms"]
    while True:
        reads = _read_all(
            reader, requested, max_bytes, at_least_one=request.version >= _FIRST_VERSION_WITH_WHOLE_BATCHES
        )
        logs = [read.log for read in reads if read.log is not None]
        remaining_ms = deadline - clock.now()
        has_enough = sum(read.size for read in reads) >= min(body["min_bytes"], max_bytes)
        if has_enough or remaining_ms <= 0 or not logs or any(read.urgent for read in reads):
            return reads
        await wait_for_any([topics.changed, *(log.changed for log in logs)], remaining_ms)


def _read_all(
    reader: PartitionReader, requested: Collection[PartitionRequest], max_bytes: int, *, at_least_one: bool
) -> list[PartitionRead]:
    reads = []
    for request in requested:
        read = reader.read(request, max_bytes, at_least_one=at_least_one)
        at_least_one &= not read.batches
        max_bytes = max(0, max_bytes - read.size)
        reads.append(read)
    return reads


def _add_records(reader: PartitionReader, read: PartitionRead, requested: PartitionRequest) -> None:
    try:
        read.result["records"] = reader.records(read, requested.offset, requested.max_bytes)
    except ApiError as api_error:
        read.result.update(error_code=api_error.error, high_watermark=-1, log_start_offset=-1, records=[])


def _group_by_topic(reads: Iterable[PartitionRead]) -> list[Mapping[str, Any]]:
    """Return the results; adjacent results for partitions of the same topic share an entry."""
    return [
        {"topic": name, "topic_id": key, "partitions": [read.result for read in group]}
        for (key, name), group in groupby(reads, lambda read: (read.key[0], read.topic))
    ]
