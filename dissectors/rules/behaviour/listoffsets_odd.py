"""S041: ListOffsets by timestamp returns an offset that cannot be right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.partitions import TopicPartition, label, topic_name_or_id
from dissectors.trackers.state import ConnectionState

_MAX_PARTITIONS = 20_000
_MAX_AGE = 60 * 1_000_000_000
_MAX_TIMESTAMP = -3  # ListOffsetsRequest.MAX_TIMESTAMP: the record with the highest timestamp (KIP-734)


class _ReturnedRecords(BoundedDict[tuple[int, TopicPartition], tuple[int, int, int]]):
    """Timestamp (ms) and offset of a returned record, and when it was returned, per isolation level and partition."""

    def __init__(self) -> None:
        super().__init__(_MAX_PARTITIONS)


@rule("S041", severity=Severity.WARNING, events=(ResponseReceived,), apis=("ListOffsets",), since="0.1", blame="broker")
def listoffsets_odd(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that ListOffsets for a timestamp returns the first record at that time or later.

    ## Why it matters
    Consumers use it to seek (offsetsForTimes, auto.offset.reset=by_duration): they start in the wrong place, or at the
    end if the response says that there is no such record.

    ## Usual cause
    A gateway without a time index that returns any offset, or a broker that uses the timestamp of another partition.
    Reported if the returned record is older than the requested time or has no timestamp, or if the response finds no
    record although one that is late enough was reported within the last minute.

    ## Example
    ```story
    > ListOffsets v4 {"topics": [{"name": "orders", "partitions": [{"timestamp": 1700000000000}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": 1600000000000, "offset": 7}]}]}
    ```
    ```story
    > ListOffsets v7 {"topics": [{"name": "orders", "partitions": [{"timestamp": -3}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": 1700000000005, "offset": 9}]}]}
    > ListOffsets v7 {"topics": [{"name": "orders", "partitions": [{"timestamp": 1700000000000}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": -1, "offset": -1}]}]}
    ```

    ```story
    > ListOffsets v4 {"topics": [{"name": "orders", "partitions": [{"timestamp": 1700000000000}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": -1, "offset": 7}]}]}
    ```

    ## Look-alikes
    ```story
    > ListOffsets v4 {"topics": [{"name": "orders", "partitions": [{"timestamp": 1700000000000}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": 1700000000005, "offset": 7}]}]}
    > ListOffsets v4 {"topics": [{"name": "orders", "partitions": [{"timestamp": 1700000000006}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": -1, "offset": -1}]}]}
    > ListOffsets v4 {"topics": [{"name": "orders", "partitions": [{"timestamp": -2}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"timestamp": -1, "offset": 0}]}]}
    ```

    ## Sources
    https://kafka.apache.org/protocol#The_Messages_ListOffsets
    https://github.com/nisshi-io/nisshi/blob/main/compat/librdkafka/FINDINGS.md
    https://github.com/streamnative/kop/issues/135
    """
    request_body, message = event.request_body, event.message
    if request_body is None or message is None:
        return
    requested_times = {
        topic_partition: row.get("timestamp", -1) for topic_partition, row, _ in _partition_rows(request_body)
    }
    if all(time < 0 and time != _MAX_TIMESTAMP for time in requested_times.values()):
        return
    returned_records = connection.run.state(_ReturnedRecords)
    for topic_partition, row, path in _partition_rows(message.body):
        requested, timestamp, offset = (
            requested_times.get(topic_partition, -1),
            row.get("timestamp", -1),
            row.get("offset", -1),
        )
        if row.get("error_code") or "offset" not in row or (requested < 0 and requested != _MAX_TIMESTAMP):
            continue
        key = (request_body.get("isolation_level", 0), topic_partition)
        partition_name = label(topic_partition, connection)
        earlier_record = returned_records.get(key)
        if offset >= 0 and timestamp >= 0:
            returned_records[key] = (timestamp, offset, event.at)
            if timestamp < requested:
                yield Problem(
                    f"ListOffsets of {partition_name} for time {requested} ms returned offset {offset}, whose time is "
                    f"{timestamp} ms: earlier than requested",
                    hint="fix the broker: it must return the first record at that time or later, or none (-1)",
                    expected=f"at least {requested}",
                    got=str(timestamp),
                    cause=partition_name,
                    **locate(message, *path, "timestamp"),
                )
        elif offset >= 0 and requested >= 0:
            yield Problem(
                f"ListOffsets of {partition_name} for time {requested} ms returned offset {offset} without its time: "
                f"the timestamp is {timestamp}",
                hint="fix the broker: it must return the timestamp of the record that it found",
                expected=f"at least {requested}",
                got=str(timestamp),
                cause=partition_name,
                **locate(message, *path, "timestamp"),
            )
        elif (
            offset == -1
            and earlier_record is not None
            and earlier_record[0] >= requested >= 0
            and event.at - earlier_record[2] <= _MAX_AGE
        ):
            yield Problem(
                f"ListOffsets of {partition_name} for time {requested} ms found nothing, though offset "
                f"{earlier_record[1]} with time {earlier_record[0]} ms was reported shortly before",
                hint="fix the broker's lookup by time, unless the records were deleted in the meantime",
                expected=f"an offset up to {earlier_record[1]}",
                got="-1",
                cause=partition_name,
                **locate(message, *path, "offset"),
            )


def _partition_rows(
    body: Mapping[str, Any],
) -> Iterator[tuple[TopicPartition, Mapping[str, Any], tuple[str | int, ...]]]:
    for i, topic in enumerate(body.get("topics") or ()):
        for j, row in enumerate(topic.get("partitions") or ()):
            yield (topic_name_or_id(topic), row.get("partition_index", 0)), row, ("topics", i, "partitions", j)
