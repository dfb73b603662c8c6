"""R009: records that the broker down-converts to an old format for an old client."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import RecordData, problem_location, record_data
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.stored_batches import StoredBatches
from dissectors.trackers.triggers import FrameFlags

_FETCH_WITH_FORMAT_2 = 4
_MAGIC_OFFSET = 16


@rule(
    "R009",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData, StoredBatches),
    since="0.1",
    blame="client",
)
def down_converted(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a topic with format 2 batches is not fetched in an older format.

    ## Why it matters
    For each such fetch, the broker decompresses and rewrites all records: it uses heap and CPU instead of zero-copy,
    and loses headers and transactions. Kafka 4.0 no longer does this and refuses Fetch below v4.

    ## Usual cause
    A client from before 0.11, or one configured to behave like it (`broker.version.fallback`, `api_version`).

    ## Example
    ```story
    > Produce v7 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{}]}]}
    2> Fetch v2 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    2< {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 1, "records": [
      {"magic": 1, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Look-alikes
    Old messages that are stored in the old format:
    ```story
    > Produce v2 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"magic": 1, "records": [{"value": "a"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{}]}]}
    2> Fetch v2 {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    2< {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 1, "records": [
      {"magic": 1, "records": [{"value": "a"}]}]}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-724%3A+Drop+support+for+message+formats+v0+and+v1
    https://github.com/apache/kafka/pull/18291
    https://github.com/IBM/sarama/issues/940
    """
    message = event.message
    if message is None or message.version >= _FETCH_WITH_FORMAT_2:
        return
    stored = connection.run.state(StoredBatches)
    for part in record_data(event, connection).parts:
        if part.batches and part.batches[0].magic < 2 and stored.has_batches(part.topic_partition, connection):
            batch = part.batches[0]
            yield Problem(
                f"{label(part.topic_partition, connection)} holds batches of format 2, but Fetch v{message.version} "
                f"makes the broker rewrite them in format {batch.magic}",
                **problem_location(
                    event, part, batch.start + _MAGIC_OFFSET, batch.start + _MAGIC_OFFSET + 1, "0", "magic"
                ),
                hint="use a client that supports Fetch v4 or later; Kafka 4.0 refuses older ones",
                cause=part.topic_partition[0],
            )
