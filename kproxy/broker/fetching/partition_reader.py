"""Reads one partition for a client."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.fetching.partition_request import Key, PartitionRequest
from kproxy.broker.leaders import LeaderHints
from kproxy.broker.log.batch import StoredBatch
from kproxy.broker.log.conversion import down_convert
from kproxy.broker.log.log import Log
from kproxy.broker.log.settings import settings
from kproxy.broker.request import Request
from kproxy.broker.topics import Partition, Topic, Topics

_READ_COMMITTED: Final = 1
_FIRST_VERSION_WITH_MAGIC_1: Final = 2  # Fetch versions
_FIRST_VERSION_WITH_MAGIC_2: Final = 4
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_FIRST_VERSION_WITH_FOLLOWER_FETCHING: Final = 11
_FIRST_VERSION_WITH_ZSTD: Final = 10
_FIRST_VERSION_WITH_WHOLE_BATCHES: Final = 3
_FIRST_VERSION_WITH_LEADERS: Final = 16
_UNKNOWN: Final = (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID, Error.TOPIC_AUTHORIZATION_FAILED)


class PartitionRead(NamedTuple):
    """The result for a partition without its records, the batches read, and the log (None after an error).

    `urgent`: whether to respond without waiting for other partitions.
    """

    key: Key
    topic: str
    result: dict[str, Any]
    batches: list[StoredBatch]
    log: Log | None
    urgent: bool = False

    @property
    def size(self) -> int:
        """Size of the batches in bytes."""
        return sum(len(batch.data) for batch in self.batches)


class PartitionReader:
    """Reads partitions for one Fetch."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._topics = request.cluster.part(Topics)
        self._is_read_committed = request.body.get("isolation_level", 0) == _READ_COMMITTED
        replica_state = request.body.get("replica_state", {})
        self._is_follower = request.body.get("replica_id", replica_state.get("replica_id", -1)) >= 0
        self.leaders = LeaderHints(request)

    def read(self, requested: PartitionRequest, max_bytes: int, *, at_least_one: bool) -> PartitionRead:
        """Read a partition.

        Args:
            requested: The partition's entry in the request.
            max_bytes: Bytes left in the response.
            at_least_one: Whether to return the first batch even if it is larger than that.
        """
        try:
            topic = self._find_topic(requested.key[0])
        except ApiError as api_error:
            name = "" if self._request.version >= _FIRST_VERSION_WITH_TOPIC_IDS else requested.key[0]
            return PartitionRead(requested.key, name, _error_result(requested, api_error.error), [], None)
        try:
            partition = self._find_partition(topic, requested)
            return self._read(partition, requested, max_bytes, at_least_one=at_least_one)
        except ApiError as api_error:
            result = _error_result(requested, api_error.error)
            has_moved = api_error.error in (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH)
            if has_moved and self._request.version >= _FIRST_VERSION_WITH_LEADERS:
                result["current_leader"] = self.leaders.current_leader(
                    self._topics.partition(topic.name, requested.key[1])
                )
            urgent = api_error.error not in _UNKNOWN
            return PartitionRead(requested.key, topic.name, result, [], None, urgent)

    def records(self, read: PartitionRead, offset: int, max_bytes: int) -> list[bytes]:
        """Return the records that were read, in chunks, in the record format of the request's version.

        Args:
            read: The result of `read`.
            offset: The requested offset.
            max_bytes: Maximum number of bytes; before version 3 the result is truncated to it.

        Raises:
            ApiError: UNSUPPORTED_COMPRESSION_TYPE.
        """
        version = self._request.version
        if version >= _FIRST_VERSION_WITH_MAGIC_2:
            return [batch.data for batch in read.batches]
        magic = 1 if version >= _FIRST_VERSION_WITH_MAGIC_1 else 0
        data = b""
        for batch in read.batches:
            try:
                data += down_convert(batch, magic, offset)
            except ApiError:
                if not data:
                    raise
                break  # the batches before this one can be returned
        data = data if version >= _FIRST_VERSION_WITH_WHOLE_BATCHES else data[: max(max_bytes, 0)]
        return [data] if data else []

    def _find_topic(self, name_or_id: str) -> Topic:
        uses_topic_ids = self._request.version >= _FIRST_VERSION_WITH_TOPIC_IDS
        topic = self._topics.by_id(name_or_id) if uses_topic_ids else self._topics.by_name(name_or_id)
        if topic is None:
            raise ApiError(Error.UNKNOWN_TOPIC_ID if uses_topic_ids else Error.UNKNOWN_TOPIC_OR_PARTITION)
        if self._is_follower:
            require(self._request, "CLUSTER_ACTION", "CLUSTER")
        else:
            require(self._request, "READ", "TOPIC", topic.name)
        return topic

    def _find_partition(self, topic: Topic, requested: PartitionRequest) -> Partition:
        request = self._request
        partition = self._topics.find_led_partition(
            request.node,
            topic,
            requested.key[1],
            requested.leader_epoch,
            any_replica=request.version >= _FIRST_VERSION_WITH_FOLLOWER_FETCHING,
        )
        if self._is_follower:  # no broker replicates from here, so the sender is not a replica
            raise ApiError(Error.NOT_LEADER_OR_FOLLOWER)
        if (
            request.version < _FIRST_VERSION_WITH_ZSTD
            and settings(request.cluster, topic.name).compression_type == "zstd"
        ):
            raise ApiError(Error.UNSUPPORTED_COMPRESSION_TYPE)
        return partition

    def _read(
        self, partition: Partition, requested: PartitionRequest, max_bytes: int, *, at_least_one: bool
    ) -> PartitionRead:
        log = partition.log
        if not log.start_offset <= requested.offset <= log.end_offset:
            raise ApiError(Error.OFFSET_OUT_OF_RANGE)
        readable_end = log.last_stable_offset if self._is_read_committed else log.high_watermark
        max_bytes = min(max_bytes, requested.max_bytes)
        at_least_one |= self._request.version < _FIRST_VERSION_WITH_WHOLE_BATCHES  # truncated later
        batches = log.read(requested.offset, readable_end, max_bytes, at_least_one=at_least_one)
        result: dict[str, Any] = {
            "partition_index": partition.index,
            "error_code": Error.NONE,
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "log_start_offset": log.start_offset,
            "aborted_transactions": None,
        }
        if self._is_read_committed:
            end_offset = batches[-1].last_offset + 1 if batches else requested.offset
            result["aborted_transactions"] = [
                {"producer_id": transaction.producer_id, "first_offset": transaction.first_offset}
                for transaction in log.aborted_transactions(requested.offset, end_offset)
            ]
        return PartitionRead(requested.key, partition.topic, result, batches, log)


def _error_result(requested: PartitionRequest, error: Error) -> dict[str, Any]:
    return {
        "partition_index": requested.key[1],
        "error_code": error,
        "high_watermark": -1,
        "log_start_offset": -1,
        "aborted_transactions": [] if error in _UNKNOWN else None,
        "records": [],
    }
