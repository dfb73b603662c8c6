"""H011: a consumer that fetches a partition in small pieces."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.message import Message
from dissectors.messages.topic_records import topic_records
from dissectors.records import outline
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.fetch_facts import requested_partitions
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

BYTES = Limit("bytes", 16 << 10, "bytes", "a consumer requests at most so many bytes of a partition")
RESPONSES = Limit("responses", 50, "responses", "and so many responses in a row are full, although there are more", 2)


class _SmallFetches:
    """The bytes that a connection requests from a partition, if few, and its consecutive full responses."""

    def __init__(self) -> None:
        self.bytes = self.count = self.size = self.since = 0


@rule(
    "H011",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=("Fetch",),
    only=FrameFlags.FIRST,
    limits=(BYTES, RESPONSES),
    since="0.1",
    blame="client",
)
def fetch_size_small(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a lagging consumer does not fetch only a few kilobytes at a time.

    ## Why it matters
    Each response is a round trip. A consumer that gets one batch per round trip never catches up over a slow network,
    and keeps the broker busy.

    ## Usual cause
    `max.partition.fetch.bytes` (`fetch.message.max.bytes` in librdkafka) of a few kilobytes, to save memory. The
    default is 1 MB. A broker answers with at least one batch, however large.

    ## Example
    ```story
    rule H011:responses=2
    > Fetch v11 {"max_wait_ms": 500, "max_bytes": 52428800, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1, "partition_max_bytes": 60}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9,
      "records": [{"base_offset": 1, "records": [{"value": "v"}]}]}]}]}
    > Fetch v11 {"max_wait_ms": 500, "max_bytes": 52428800, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 2, "partition_max_bytes": 60}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 9,
      "records": [{"base_offset": 2, "records": [{"value": "v"}]}]}]}]}
    ```

    ## Look-alikes
    A consumer that has read everything:
    ```story
    rule H011:responses=2
    > Fetch v11 {"max_wait_ms": 500, "max_bytes": 52428800, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1, "partition_max_bytes": 60}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 2,
      "records": [{"base_offset": 1, "records": [{"value": "v"}]}]}]}]}
    > Fetch v11 {"max_wait_ms": 500, "max_bytes": 52428800, "topics": [
      {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 2, "partition_max_bytes": 60}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 3,
      "records": [{"base_offset": 2, "records": [{"value": "v"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#consumerconfigs_max.partition.fetch.bytes
    """
    run, small_fetches = connection.run, connection.state(_SmallFetches)
    if isinstance(event, RequestReceived):
        if not small_fetches.bytes:
            sizes = [
                partition.get("partition_max_bytes", 0) for _, partition, _ in requested_partitions(event.message.body)
            ]
            if sizes and 0 < max(sizes) <= run.limit(BYTES):
                small_fetches.bytes = max(sizes)
                run.subscribe("H011", api="Fetch")
        return
    message = event.message
    if not small_fetches.bytes or message is None:
        return
    size, is_full = _measure_records(message, small_fetches.bytes)
    if not size:
        return
    if not is_full:
        small_fetches.count = 0
        return
    if small_fetches.count == 0:
        small_fetches.since, small_fetches.size = event.at, 0
    small_fetches.count += 1
    small_fetches.size += size
    if small_fetches.count >= run.limit(RESPONSES):
        yield Problem(
            f"{client_label(connection)} got {small_fetches.count} Fetch responses in a row with "
            f"{small_fetches.size // small_fetches.count:,} bytes"
            f" of records each, within {duration(event.at - small_fetches.since)}, although there are more: it "
            f"requests at most {small_fetches.bytes:,} bytes of a partition",
            hint="raise max.partition.fetch.bytes (fetch.message.max.bytes in librdkafka); the default is 1 MB",
            cause="small",
        )
        small_fetches.count = 0


def _measure_records(message: Message, limit: int) -> tuple[int, bool]:
    """Return the size of a response's records, and whether a partition fills `limit` although more records follow."""
    size, is_full = 0, False
    for topic in topic_records(message):
        for records in topic.partitions:
            if records.data and records.batch is not None:
                size += len(records.data)
                end = outline(records.data, records.batches).next_offset
                has_more = end is not None and records.row.get("high_watermark", -1) > end
                is_full = is_full or (has_more and 2 * len(records.data) >= limit)
    return size, is_full
