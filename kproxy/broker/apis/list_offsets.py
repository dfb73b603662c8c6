"""ListOffsets: returns offsets of partitions by timestamp, or the first and the last.

Version 0 returns the start offsets of segments; here a log has one segment.

Leaves out: tiered storage: the earliest local offset (-4) is the earliest offset; there is no tiered offset (-5), and
none pending upload (-6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log import Log
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Partition, Topics

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
#: The version of ListOffsets that introduced each special timestamp.
_FIRST_VERSIONS: Final = {
    _LATEST: 0,
    _EARLIEST: 0,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_CONSUMER: Final = -1
_READ_COMMITTED: Final = 1
_NOT_FOUND: Final[dict[str, Any]] = {"timestamp": -1, "offset": -1, "leader_epoch": -1}


@api("ListOffsets")
async def list_offsets(request: Request) -> Body:
    """Return the offset for each partition."""
    requested = Counter(
        (topic["name"], partition["partition_index"])
        for topic in request.body["topics"]
        for partition in topic["partitions"]
    )
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": partition["partition_index"], "error_code": Error.NONE}
                    | _offset_result(
                        request,
                        topic["name"],
                        partition,
                        is_duplicate=requested[topic["name"], partition["partition_index"]] > 1,
                    )
                    async for partition in paced(topic["partitions"])
                ],
            }
            async for topic in paced(request.body["topics"])
        ]
    }


def _offset_result(request: Request, name: str, requested: Mapping[str, Any], *, is_duplicate: bool) -> dict[str, Any]:
    try:
        topics, timestamp = request.cluster.part(Topics), requested["timestamp"]
        require(request, "DESCRIBE", "TOPIC", name)
        topic = topics.find(name, None)
        if request.version > 0 and is_duplicate:
            raise ApiError(Error.INVALID_REQUEST)
        if timestamp < 0 and request.version < _FIRST_VERSIONS.get(timestamp, request.version + 1):
            raise ApiError(Error.UNSUPPORTED_VERSION)
        partition = topics.find_led_partition(
            request.node, topic, requested["partition_index"], requested.get("current_leader_epoch", -1),
            any_replica=request.body["replica_id"] < _CONSUMER,
        )  # fmt: skip
        if request.version == 0:
            segment_starts = _segment_starts(partition.log, timestamp, request.cluster.clock.now())
            return {"old_style_offsets": segment_starts[: max(requested["max_num_offsets"], 0)]}
        return _find_offset(partition, timestamp, _readable_end(request, partition.log))
    except ApiError as api_error:
        return {"error_code": api_error.error} | _NOT_FOUND


def _readable_end(request: Request, log: Log) -> int:
    """Return the offset after the last one that this client may read."""
    is_read_committed = (
        request.body.get("isolation_level", 0) == _READ_COMMITTED and request.body["replica_id"] == _CONSUMER
    )
    return log.last_stable_offset if is_read_committed else log.high_watermark


def _find_offset(partition: Partition, timestamp: int, end_offset: int) -> dict[str, Any]:
    log = partition.log
    if timestamp == _LATEST:
        return {"timestamp": -1, "offset": end_offset, "leader_epoch": partition.leader_epoch}
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return {"timestamp": -1, "offset": log.start_offset, "leader_epoch": log.epochs.at(log.start_offset)}
    if timestamp == _MAX_TIMESTAMP:
        timestamp = log.greatest_timestamp
        if timestamp < 0:
            return _NOT_FOUND
    elif timestamp < 0:
        return _NOT_FOUND
    record = log.record_since(timestamp)
    if record is None or record[0] >= end_offset:
        return _NOT_FOUND
    offset, record_timestamp = record
    return {"timestamp": record_timestamp, "offset": offset, "leader_epoch": log.epochs.at(offset)}


def _segment_starts(log: Log, timestamp: int, now_ms: int) -> list[int]:
    """Return the start offsets of segments last modified before a time, newest first, after the log end offset."""
    if timestamp == _EARLIEST:
        return [log.start_offset]
    if timestamp == _LATEST or timestamp >= now_ms:
        return [log.end_offset, *([log.start_offset] if log.size else [])]
    return [log.start_offset] if log.greatest_timestamp <= timestamp else []
