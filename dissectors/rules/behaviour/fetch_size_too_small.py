"""S025: a fetch limit below the size of the batch at the fetch offset."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.records import summarize
from dissectors.rules import rule
from dissectors.trackers.fetch_facts import requested_partitions
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import TopicPartition, label, topic_name_or_id
from dissectors.trackers.state import ConnectionState

#: From this version on, a broker sends the first batch whole, whatever the limits (KIP-74).
_FIRST_VERSION_WITH_WHOLE_BATCH = 3
_HEADER_SIZE = 12  # base offset (8 bytes) and the length of what follows (4)
_MAX_PARTITIONS = 1000


class _TruncatedBatches:
    """Partitions of one connection whose first batch was truncated: its offset and its size in bytes."""

    def __init__(self) -> None:
        self.partitions: BoundedDict[TopicPartition, tuple[int, int]] = BoundedDict(_MAX_PARTITIONS)


@rule(
    "S025",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Fetch",),
    versions=range(3),
    needs=(Fetches,),
    since="0.1",
    blame="client",
)
def fetch_size_too_small(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client that received only part of a batch requests more bytes next time.

    ## Why it matters
    Up to Fetch v2, a broker truncates even the first batch at `partition_max_bytes`. With the same limit, it returns
    the same part again: the consumer never gets past that offset. From v3 on, the first batch is sent whole (KIP-74).

    ## Usual cause
    The producer may send larger messages than this consumer can fetch: `max.message.bytes` of the topic exceeds its
    fetch size.

    ## Example
    ```story
    > Fetch v2 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5, "partition_max_bytes": 20}]}]}
    < {"responses": [{"topic": "t", "partitions": [
       {"high_watermark": 9, "records": "0000000000000005 00000100 12345678 01 00 0000"}]}]}
    > Fetch v2 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5, "partition_max_bytes": 20}]}]}
    ```

    ## Look-alikes
    A client that requests more bytes after a truncated batch:
    ```story
    > Fetch v2 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5, "partition_max_bytes": 20}]}]}
    < {"responses": [{"topic": "t", "partitions": [
       {"high_watermark": 9, "records": "0000000000000005 00000100 12345678 01 00 0000"}]}]}
    > Fetch v2 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 5, "partition_max_bytes": 4000}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-74%3A+Add+Fetch+Response+Size+Limit+in+Bytes
    https://github.com/kafka-rust/kafka-rust/issues/57
    https://github.com/SOHU-Co/kafka-node/issues/264
    """
    message = event.message
    if message is None or message.version >= _FIRST_VERSION_WITH_WHOLE_BATCH:
        return
    if isinstance(event, ResponseReceived):
        _store_truncated_batches(event, connection)
    elif truncated_partitions := connection.state(_TruncatedBatches).partitions:
        for topic_partition, partition, path in requested_partitions(message.body):
            offset, needed = truncated_partitions.pop(topic_partition, (-1, 0))
            limit = partition.get("partition_max_bytes", needed)
            if partition.get("fetch_offset") == offset and limit < needed:
                yield Problem(
                    f"{label(topic_partition, connection)} is requested again with {limit} bytes, but the batch at "
                    f"offset {offset} needs {needed}: the consumer cannot pass it",
                    **locate(message, *path, "partition_max_bytes"),
                    hint="raise the client's fetch size (fetch.message.max.bytes, max.partition.fetch.bytes) to the "
                    "topic's max.message.bytes, or use a client with Fetch v3 or later",
                    expected=f"at least {needed}",
                    got=str(limit),
                    cause=topic_partition[0],
                )


def _store_truncated_batches(event: ResponseReceived, connection: ConnectionState) -> None:
    request_body, message = event.request_body, event.message
    if request_body is None or message is None or connection.state(Fetches).is_response_empty:
        return
    offsets = connection.state(Fetches).sessions.offsets(event.request)
    for topic in message.body.get("responses") or ():
        for partition in topic.get("partitions") or ():
            records = partition.get("records")
            topic_partition = topic_name_or_id(topic), partition.get("partition_index", 0)
            if (
                records
                and len(records) >= _HEADER_SIZE
                and topic_partition in offsets
                and not summarize(records).batches
            ):
                needed = _HEADER_SIZE + int.from_bytes(records[8:_HEADER_SIZE], "big", signed=True)
                connection.state(_TruncatedBatches).partitions[topic_partition] = offsets[topic_partition], needed
