"""S085: a read_committed consumer that gets records of a transaction that is still open."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.topic_records import first_batch_from, topic_records
from dissectors.rules import rule
from dissectors.trackers.fetch_facts import is_follower, is_read_committed
from dissectors.trackers.partitions import label
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MAX_PARTITIONS = 1_000
_PENDING_FOR = 60 * SECOND


class _EarlyBatch(NamedTuple):
    """A batch that a consumer got at or above the last stable offset of the same response."""

    offset: int
    at: int


class _PendingBatches:
    """Early batches by connection and partition: a later response shows whether the offset had moved past them."""

    def __init__(self) -> None:
        self.batches: BoundedDict[Hashable, _EarlyBatch] = BoundedDict(_MAX_PARTITIONS)
        self.last_at = 0


@rule(
    "S085",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    since="0.1",
    blame="broker",
)
def unstable_records(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a read_committed consumer gets no records at or above the last stable offset.

    ## Why it matters
    The records from the last stable offset on may belong to a transaction that is open. If it aborts, the consumer has
    already processed them.

    ## Usual cause
    A broker that reads up to the high watermark regardless of the isolation level. Kafka may return a batch that was
    written after it read the last stable offset, so this is reported only when a later response still has an offset
    that is not above that batch.

    ## Example
    ```story
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 4}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "last_stable_offset": 5, "records": [
       {"base_offset": 4, "records": [{"value": "a"}]}, {"base_offset": 5, "is_transactional": true, "producer_id": 5,
       "producer_epoch": 0, "records": [{"value": "b"}]}]}]}]}
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 6}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "last_stable_offset": 5, "records": ""}]}]}
    ```

    ## Look-alikes
    A transaction that ended while the broker read; and a consumer that reads all records:
    ```story
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 4}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "last_stable_offset": 5, "records": [
       {"base_offset": 4, "records": [{"value": "a"}]}, {"base_offset": 5, "is_transactional": true, "producer_id": 5,
       "producer_epoch": 0, "records": [{"value": "b"}]}]}]}]}
    > Fetch v11 {"isolation_level": 1, "topics": [{"topic": "t", "partitions": [{"fetch_offset": 6}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 7, "records": ""}]}]}
    2> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 4}]}]}
    2< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "last_stable_offset": 5, "records": [
       {"base_offset": 5, "records": [{"value": "b"}]}]}]}]}
    2> Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 6}]}]}
    2< {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "last_stable_offset": 5, "records": ""}]}]}
    ```

    ## Sources
    https://github.com/streamnative/kop/pull/1856
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
    """
    pending = connection.run.state(_PendingBatches)
    if event.at - pending.last_at > _PENDING_FOR:
        pending.batches.clear()
    message, request_body = event.message, event.request_body
    if (
        message is not None
        and request_body is not None
        and is_read_committed(request_body)
        and not is_follower(request_body)
    ):
        for i, topic in enumerate(topic_records(message)):
            for j, partition in enumerate(topic.partitions):
                stable_offset = partition.row.get("last_stable_offset", -1)
                if partition.row.get("error_code") or stable_offset < 0:
                    continue
                topic_partition = topic.key, partition.partition or 0
                early_batch = pending.batches.pop((connection.connection_id, topic_partition), None)
                if early_batch is not None and stable_offset <= early_batch.offset:
                    yield Problem(
                        f"{label(topic_partition, connection)}: a read_committed consumer got the batch at "
                        f"{early_batch.offset}, although the last stable offset is still {stable_offset}: its "
                        "transaction may be aborted",
                        **locate(message, "responses", i, "partitions", j, "last_stable_offset"),
                        hint="fix the broker: with isolation_level 1, return records below the last stable offset only",
                        cause=topic_partition[0],
                    )
                elif (offset := first_batch_from(partition.data, stable_offset)) is not None:
                    pending.batches[connection.connection_id, topic_partition] = _EarlyBatch(offset, event.at)
                    pending.last_at = event.at
    if pending.batches:
        connection.run.subscribe("S085")
    else:
        connection.run.unsubscribe("S085")
