"""S061: a consumer that keeps getting the same batch because it contains no new record."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import label
from dissectors.trackers.repeated_batches import RepeatedBatches
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags


@rule(
    "S061",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.REPEATED,
    needs=(Fetches,),
    since="0.1",
    blame="client",
)
def batch_tail_loop(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a consumer continues after a batch whose records all lie before its offset.

    ## Why it matters
    The consumer fetches the same batch forever: its lag grows, it reads nothing, and nobody gets an error.

    ## Usual cause
    Compaction deletes records but keeps the offsets of their batch: its last record may lie before base_offset +
    last_offset_delta, or the batch is empty. A client that takes its next offset from the last record stays inside the
    batch and gets the batch again. It must continue at base_offset + last_offset_delta + 1. A client that drops the
    records of aborted transactions has the same problem if a response has nothing else.

    It is reported after 5 responses over at least 1 s. S051 covers batches of transaction markers.

    ## Example
    The batch has the offsets 96 to 108, and its last record is 97:
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 98}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 200, "records": [
       {"base_offset": 96, "last_offset_delta": 12, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    +400ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 98}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 200, "records": [
       {"base_offset": 96, "last_offset_delta": 12, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    +400ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 98}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 200, "records": [
       {"base_offset": 96, "last_offset_delta": 12, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    +400ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 98}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 200, "records": [
       {"base_offset": 96, "last_offset_delta": 12, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    +400ms
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 98}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 200, "records": [
       {"base_offset": 96, "last_offset_delta": 12, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    ```

    ## Look-alikes
    A consumer that reads such a batch once, and one that reads a batch again because its application seeks back (S062):
    ```story
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 98}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 200, "records": [
       {"base_offset": 96, "last_offset_delta": 12, "records": [{"value": "a"}, {"value": "b"}]}]}]}]}
    > Fetch v11 {"topics": [{"topic": "t", "partitions": [{"fetch_offset": 109}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"high_watermark": 200, "records": [
       {"base_offset": 109, "records": [{"value": "c"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://github.com/tulios/kafkajs/issues/562
    https://github.com/dpkp/kafka-python/issues/1571
    https://github.com/zendesk/ruby-kafka/issues/555
    """
    message = event.message
    if message is None:
        return
    for partition in connection.state(RepeatedBatches).stuck_partitions(event, connection):
        contents = partition.contents
        if contents is None or contents.newest >= partition.offset:
            continue
        if contents.kept < 0:
            batch_note = "which is empty"
        elif contents.kept < partition.offset:
            batch_note = f"whose last record is {contents.kept}"
        else:
            batch_note = "whose other records are of aborted transactions"
        next_offset = contents.last + 1
        yield Problem(
            f"{partition.times} fetches of {label(partition.topic_partition, connection)} at {partition.offset} got "
            f"the batch {contents.first}..{contents.last} (base_offset + last_offset_delta), {batch_note}: the client "
            f"must continue at {next_offset}",
            **locate(message, *partition.where, "records"),
            hint="upgrade or fix the client: after a batch, the next offset is base_offset + last_offset_delta + 1, "
            "even if compaction has deleted its last records or all of them",
            expected=f"a fetch from offset {next_offset}",
            got=f"offset {partition.offset}",
            cause=partition.topic_partition[0],
        )
