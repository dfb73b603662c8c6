"""What Fetch requests and responses say: partitions, end offsets, and whether records are held back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.messages.message import Message
from dissectors.messages.topic_records import PartitionRecords, first_batch_from, topic_records
from dissectors.records.control import are_all_control_batches
from dissectors.records.formats import CONTROL
from dissectors.trackers.partitions import TopicPartition, topic_name_or_id

#: A last stable offset for layouts that have none.
_NO_LIMIT = 1 << 63

_READ_COMMITTED = 1


def requested_partitions(
    body: Mapping[str, Any],
) -> Iterator[tuple[TopicPartition, Mapping[str, Any], tuple[str | int, ...]]]:
    """Yield the partitions in a Fetch request, each with its values and path."""
    for i, topic in enumerate(body.get("topics") or ()):
        name = topic_name_or_id(topic)
        for j, partition in enumerate(topic.get("partitions") or ()):
            yield (name, partition.get("partition", 0)), partition, ("topics", i, "partitions", j)


def is_follower(request_body: Mapping[str, Any]) -> bool:
    """Whether the request comes from a replicating broker, not a consumer."""
    state: Mapping[str, Any] = request_body.get("replica_state") or request_body
    return bool(state.get("replica_id", -1) != -1)


def end_field(request_body: Mapping[str, Any]) -> str:
    """Return the name of the response field that contains the end offset for this reader."""
    return "last_stable_offset" if request_body.get("isolation_level") == _READ_COMMITTED else "high_watermark"


def is_read_committed(request_body: Mapping[str, Any]) -> bool:
    """Whether the consumer reads committed transactions only."""
    return bool(request_body.get("isolation_level") == _READ_COMMITTED)


def is_held(row: Mapping[str, Any]) -> bool:
    """Whether a partition in a response has no records for a read_committed consumer, but has unstable records."""
    last_stable_offset = row.get("last_stable_offset", -1)
    return (
        bool(0 <= last_stable_offset < row.get("high_watermark", -1))
        and not row.get("records")
        and not row.get("error_code")
    )


def held_partitions(body: Mapping[str, Any]) -> Iterator[tuple[TopicPartition, Mapping[str, Any]]]:
    """Yield the partitions in a response whose records an open transaction holds back, each with its values."""
    for topic in body.get("responses") or ():
        for partition in topic.get("partitions") or ():
            if is_held(partition):
                yield (topic_name_or_id(topic), partition.get("partition_index", 0)), partition


def continues_session(request_body: Mapping[str, Any]) -> bool:
    """Whether a request belongs to an open session, so that it has only the partitions that changed."""
    return bool(request_body.get("session_epoch", -1) > 0)


def opens_session(request_body: Mapping[str, Any]) -> bool:
    """Whether a request opens a new session."""
    return request_body.get("session_epoch") == 0 == request_body.get("session_id")


def end_offsets(request_body: Mapping[str, Any], body: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Return the end offset of each partition in a response; -1 if it cannot be read from this broker."""
    end_name = end_field(request_body)
    return {
        (name, partition.get("partition_index", 0)): -1
        if partition.get("error_code") or partition.get("preferred_read_replica", -1) >= 0
        else partition.get(end_name, -1)
        for topic in body.get("responses") or ()
        for name in (topic_name_or_id(topic),)
        for partition in topic.get("partitions") or ()
    }


def has_records(message: Message) -> bool:
    """Whether any partition in a response has records."""
    for _, _, partitions in topic_records(message):
        for records in partitions:
            if records.data:
                return True
    return False


def has_unstable_batch(records: PartitionRecords) -> bool:
    """Whether a partition has a batch at or above its last stable offset."""
    last_stable_offset = records.row.get("last_stable_offset", _NO_LIMIT)
    return (
        last_stable_offset < records.row.get("high_watermark", 0)
        and first_batch_from(records.data, last_stable_offset) is not None
    )


def has_only_control(message: Message) -> bool:
    """Whether any partition has only control batches."""
    return any(
        are_all_control_batches(records.data)
        for topic in topic_records(message)
        for records in topic.partitions
        if records.data and records.batch is not None and records.batch.attributes & CONTROL
    )


def is_at_end(request_body: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether no partition has more records. A cheap check, which only recognises responses in the request's order."""
    requested, returned, end = request_body.get("topics") or (), body.get("responses") or (), end_field(request_body)
    try:
        for topic, returned_topic in zip(requested, returned, strict=True):
            if topic_name_or_id(topic) != topic_name_or_id(returned_topic):
                return False
            for partition, returned_partition in zip(topic["partitions"], returned_topic["partitions"], strict=True):
                if (
                    returned_partition[end] > partition["fetch_offset"]
                    or partition["partition"] != returned_partition["partition_index"]
                ):
                    return False
    except (KeyError, TypeError, ValueError):  # missing fields, null, different lengths
        return False
    return True
