"""T006: a transaction that holds a partition while others write to it, seen by a reader of uncommitted records."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.transaction_facts import partition_ends
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.rules.helpers.transaction_holders import holder_of
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.fetch_facts import is_read_committed
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import label
from dissectors.trackers.producers import Producers
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.stable_offsets import StableOffsets
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import OpenTransactions
from dissectors.trackers.triggers import FrameFlags

STILL = Limit("still", 20, "s", "the last stable offset has not moved for so long while the high watermark has risen")


@rule(
    "T006",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.HELD,
    limits=(STILL,),
    needs=(Fetches, StableOffsets, Producers, OpenTransactions),
    since="0.1",
    blame="client",
)
def hanging_transaction(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the last stable offset of a partition moves while records are written to it.

    ## Why it matters
    A transaction that does not end holds the last stable offset: consumers with isolation.level read_committed get
    nothing above it, and brokers cannot compact or delete records above it. A reader of uncommitted records, or a
    follower, is not held up, but its responses show the offset and the first batch of the transaction, and thus the
    producer. T001 reports the consumers that wait. The finding has severity info while the producer is active, or if
    its requests were not observed and it may still end the transaction.

    ## Usual cause
    A producer that crashed or hangs, and whose transaction its coordinator will abort. If the coordinator has ended it
    and the partition has no marker, it is a hanging transaction (KIP-664): nothing will end it. Brokers before 3.6 left
    hanging transactions when a late batch arrived after its transaction had ended (KIP-890).

    ## Example
    The coordinator has aborted the transaction of the batch at offset 5:
    ```story
    2> InitProducerId v1 {"transactional_id": "pay-1", "transaction_timeout_ms": 600000}
    2< {"producer_id": 9001, "producer_epoch": 0}
    2> EndTxn v1 {"transactional_id": "pay-1", "producer_id": 9001, "producer_epoch": 0, "committed": false}
    2< {}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "last_stable_offset": 5, "records": [
      {"base_offset": 5, "is_transactional": true, "producer_id": 9001, "producer_epoch": 0, "base_sequence": 0,
      "records": [{}]}]}]}]}
    +21s
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 6}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 7, "last_stable_offset": 5, "records": [
      {"base_offset": 6, "records": [{}]}]}]}]}
    ```

    ## Look-alikes
    The transaction ends:
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "last_stable_offset": 5, "records": [
      {"base_offset": 5, "is_transactional": true, "producer_id": 9001, "producer_epoch": 0, "base_sequence": 0,
      "records": [{}]}]}]}]}
    +21s
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 6}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 8, "last_stable_offset": 7, "records": [
      {"base_offset": 6, "records": [{}]}]}]}]}
    ```
    Nobody writes:
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "last_stable_offset": 5, "records": [
      {"base_offset": 5, "is_transactional": true, "producer_id": 9001, "producer_epoch": 0, "base_sequence": 0,
      "records": [{}]}]}]}]}
    +21s
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 6}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 6, "last_stable_offset": 5, "records": ""}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-664%3A+Provide+tooling+to+detect+and+abort+hanging+transactions
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-890%3A+Transactions+Server-Side+Defense
    """
    if event.message is None or event.request_body is None or is_read_committed(event.request_body):
        return
    limit = int(connection.run.limit(STILL) * SECOND)
    for partition in partition_ends(event.message).held:
        topic_partition = partition.topic, partition.partition
        stable_offset = connection.run.state(StableOffsets).for_partition(topic_partition, connection)
        if (
            stable_offset is None
            or event.at < max(stable_offset.due, stable_offset.since + limit)
            or stable_offset.end <= stable_offset.begin
        ):
            continue
        stable_offset.due = event.at + limit
        holder = holder_of(topic_partition, stable_offset.offset, stable_offset.since, event.at, connection)
        partition_name = label(topic_partition, connection)
        yield Problem(
            f"{partition_name}: the last stable offset {stable_offset.offset} has not moved for "
            f"{duration(event.at - stable_offset.since)}, while "
            f"{count_text(stable_offset.end - stable_offset.begin, 'record')} were written after it: {holder.text}",
            hint=holder.hint,
            severity=holder.severity,
            blame=holder.blame,
            once_per=(partition_name, stable_offset.offset, holder.kind),
        )
