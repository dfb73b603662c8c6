"""S097: an end of a leader epoch that lies below records of that epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.topic_records import topic_records
from dissectors.records.formats import TIMESTAMP_TYPE
from dissectors.rules import rule
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

_MAX_PARTITIONS = 10_000
#: Fetches are observed for this long (ns) after a request for the end of an epoch.
_OBSERVATION_NS = 2 * SECOND
#: High watermarks older than this (ns) are not compared.
_MAX_WATERMARK_AGE = 10 * SECOND
_MS = 1_000_000

#: Server, topic (its name if known) and partition.
_Key = tuple[str, str, int]


class _End(NamedTuple):
    """The returned end of an epoch, when it was requested (ns), and whether it was the leader's current epoch."""

    epoch: int
    offset: int
    requested_at: int
    is_current: bool


class _Ends:
    """The returned ends, by partition, and the high watermarks of later fetches."""

    def __init__(self) -> None:
        self.requested_at = 0
        self.by_partition: BoundedDict[_Key, _End] = BoundedDict(_MAX_PARTITIONS)
        self.watermarks: BoundedDict[_Key, tuple[int, int]] = BoundedDict(_MAX_PARTITIONS)


@rule(
    "S097",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("OffsetForLeaderEpoch",),
    also=(Trigger((ResponseReceived,), ("Fetch",), only=FrameFlags.SUBSCRIBED),),
    since="0.1",
    blame="broker",
)
def epoch_end_too_low(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the end of a leader epoch from OffsetForLeaderEpoch is not below records of that epoch.

    ## Why it matters
    A consumer compares its position with the end of the epoch that it has read. If the end is lower, it concludes that
    records were lost (log truncation): it goes back and reads records again, or fails with an exception.

    ## Usual cause
    A broker or gateway that returns the start of the log, the high watermark of another replica, or 0.

    Only records that certainly existed before the request count: records of an epoch that is over, records with an
    earlier append time, and records below a high watermark that a fetch returned within the 10 s before.

    ## Example
    The epoch is over, and has more records:
    ```story
    > OffsetForLeaderEpoch v2 {"topics": [{"topic": "t", "partitions": [
      {"current_leader_epoch": 6, "leader_epoch": 5}]}]}
    < {"topics": [{"topic": "t", "partitions": [{"leader_epoch": 5, "end_offset": 40}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 40}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 50, "records": [
      {"base_offset": 40, "partition_leader_epoch": 5, "records": [{"value": "a"}]}]}]}]}
    ```
    ```story
    > OffsetForLeaderEpoch v2 {"topics": [{"topic": "t", "partitions": [
      {"current_leader_epoch": 5, "leader_epoch": 5}]}]}
    < {"topics": [{"topic": "t", "partitions": [{"leader_epoch": 5, "end_offset": 40}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 40}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 50, "records": ""}]}]}
    > OffsetForLeaderEpoch v2 {"topics": [{"topic": "t", "partitions": [
      {"current_leader_epoch": 5, "leader_epoch": 5}]}]}
    < {"topics": [{"topic": "t", "partitions": [{"leader_epoch": 5, "end_offset": 40}]}]}
    ```

    ## Look-alikes
    Records that were written since, and records of a newer epoch:
    ```story
    > OffsetForLeaderEpoch v2 {"topics": [{"topic": "t", "partitions": [
      {"current_leader_epoch": 5, "leader_epoch": 5}]}]}
    < {"topics": [{"topic": "t", "partitions": [{"leader_epoch": 5, "end_offset": 40}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 40}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 50, "records": [
      {"base_offset": 40, "partition_leader_epoch": 5, "records": [{"value": "a"}]}]}]}]}
    > OffsetForLeaderEpoch v2 {"topics": [{"topic": "t", "partitions": [
      {"current_leader_epoch": 6, "leader_epoch": 5}]}]}
    < {"topics": [{"topic": "t", "partitions": [{"leader_epoch": 5, "end_offset": 41}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 41}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 50, "records": [
      {"base_offset": 41, "partition_leader_epoch": 6, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-320%3A+Allow+fetchers+to+detect+and+handle+log+truncation
    https://kafka.apache.org/protocol#The_Messages_OffsetForLeaderEpoch
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or event.request is None or message.diagnosis is not None:
        return
    ends = connection.run.state(_Ends)
    if message.api == "Fetch":
        yield from _check_fetched_records(event, ends, connection)
    elif request_body.get("replica_id", -2) < 0:  # not a follower
        yield from _check_returned_ends(event, request_body, event.request.at, ends, connection)


def _check_returned_ends(
    event: ResponseReceived,
    request_body: Mapping[str, Any],
    requested_at: int,
    ends: _Ends,
    connection: ConnectionState,
) -> Iterator[Problem]:
    """Compare the returned ends with high watermarks of earlier fetches, and keep the ends for later fetches."""
    message = event.message
    assert message is not None
    requested = {
        (topic.get("topic", ""), row.get("partition", 0)): row
        for topic in request_body.get("topics") or ()
        for row in topic.get("partitions") or ()
    }
    for i, topic in enumerate(message.body.get("topics") or ()):
        for j, row in enumerate(topic.get("partitions") or ()):
            name, partition, offset = topic.get("topic", ""), row.get("partition", 0), row.get("end_offset", -1)
            requested_row, epoch = requested.get((name, partition)), row.get("leader_epoch", -1)
            if (
                requested_row is None
                or row.get("error_code")
                or offset < 0
                or not 0 <= epoch == requested_row.get("leader_epoch")
            ):
                continue
            key = connection.server, name, partition
            current_epoch = requested_row.get("current_leader_epoch", -1)
            ends.by_partition[key] = _End(epoch, offset, requested_at, current_epoch <= epoch)
            ends.requested_at = event.at
            connection.run.subscribe("S097", api="Fetch")
            watermark, seen_at = ends.watermarks.get(key, (-1, requested_at))
            if 0 <= current_epoch <= epoch and offset < watermark and 0 < requested_at - seen_at <= _MAX_WATERMARK_AGE:
                yield Problem(
                    f"OffsetForLeaderEpoch returned {offset} as the end of leader epoch {epoch} of {name}"
                    f"[{partition}], but a fetch from {connection.server} {duration(requested_at - seen_at)} before "
                    f"had the high watermark {watermark}: the consumer takes this for lost records, and goes back",
                    **locate(message, "topics", i, "partitions", j, "end_offset"),
                    hint=_HINT,
                    expected=f"{watermark} or more",
                    got=str(offset),
                    cause=name,
                )


_HINT = (
    "fix the broker: the end of the newest leader epoch is the end of the log, that of an older one is the start "
    "offset of the next epoch"
)


def _check_fetched_records(event: ResponseReceived, ends: _Ends, connection: ConnectionState) -> Iterator[Problem]:
    """Compare fetched records with the end of their epoch, and remember the high watermarks."""
    if event.at - ends.requested_at > _OBSERVATION_NS:
        connection.run.unsubscribe("S097", api="Fetch")
        return
    message = event.message
    assert message is not None
    for i, topic in enumerate(topic_records(message)):
        name = connection.run.topic_names.get(topic.key, topic.key)
        for j, partition in enumerate(topic.partitions):
            key = connection.server, name, partition.partition or 0
            end = ends.by_partition.get(key)
            if (
                end is None
                or partition.row.get("error_code")
                or event.request is None
                or event.request.at < end.requested_at
            ):
                continue
            ends.watermarks[key] = partition.row.get("high_watermark", -1), event.at
            batch = partition.batch
            if batch is None or batch.partition_leader_epoch != end.epoch or batch.last_offset < end.offset:
                continue
            is_older = batch.attributes & TIMESTAMP_TYPE and 0 <= batch.max_timestamp * _MS < end.requested_at - SECOND
            if end.is_current and not is_older:
                continue  # the batch may have been written since
            del ends.by_partition[key]
            yield Problem(
                f"OffsetForLeaderEpoch returned {end.offset} as the end of leader epoch {end.epoch} of "
                f"{name}[{key[2]}], but {connection.server} has records {batch.base_offset} to {batch.last_offset} of "
                "this epoch: the consumer takes them for lost, and goes back",
                **locate(message, "responses", i, "partitions", j, "records"),
                hint=_HINT,
                expected=f"{batch.last_offset + 1} or more",
                got=str(end.offset),
                cause=name,
            )
