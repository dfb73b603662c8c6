"""S024: fetches that stay empty although the high watermark is above the fetch offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.trackers.fetch_facts import end_field, is_follower
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import TopicPartition, label, topic_name_or_id
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_INTERVAL = 5
_MAX_PARTITIONS = 1000


class _StarvedPartitions:
    """Partitions of one connection that have records but return none: fetch offset, number of empty responses."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, tuple[int, int]] = {}


@rule(
    "S024",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Fetch",),
    only=FrameFlags.STARVED,
    needs=(Fetches,),
    since="0.1",
    blame="broker",
)
def fetch_starved(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that fetches return records while the high watermark is above the fetch offset.

    ## Why it matters
    The consumer keeps fetching, gets neither records nor an error, and its lag grows: it is stuck, and nothing shows
    it.

    ## Usual cause
    A server that finds no batch because the fetch offset is in the middle of one, or that drops a batch larger than
    the client's limits instead of sending the first one whole (KIP-74). Kafka itself does this only when tiered
    storage is slow to respond.

    ## Example
    ```story
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "high_watermark": 9, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "high_watermark": 9, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "high_watermark": 9, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "high_watermark": 9, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "high_watermark": 9, "records": ""}]}]}
    ```

    In a fetch session, neither side repeats unchanged partitions:
    ```story
    > Fetch v12 {"session_epoch": 0, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"session_id": 7, "responses": [
       {"topic": "t", "partitions": [{"partition_index": 0, "high_watermark": 9, "records": ""}]}]}
    > Fetch v12 {"session_id": 7, "session_epoch": 1}
    < {"session_id": 7}
    > Fetch v12 {"session_id": 7, "session_epoch": 2}
    < {"session_id": 7}
    > Fetch v12 {"session_id": 7, "session_epoch": 3}
    < {"session_id": 7}
    > Fetch v12 {"session_id": 7, "session_epoch": 4}
    < {"session_id": 7}
    ```

    ## Look-alikes
    A consumer at the end of the partition; one that reads committed records and waits at the last stable offset; and
    one that the broker throttles:
    ```story
    > Fetch v12 {"session_epoch": 0, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"session_id": 7, "responses": [
       {"topic": "t", "partitions": [{"partition_index": 0, "high_watermark": 9, "records": [{"records": [{}]}]}]}]}
    > Fetch v12 {"session_id": 7, "session_epoch": 1,
       "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 9}]}]}
    < {"session_id": 7}
    > Fetch v12 {"session_id": 7, "session_epoch": 2}
    < {"session_id": 7}
    > Fetch v12 {"session_id": 7, "session_epoch": 3}
    < {"session_id": 7}
    > Fetch v12 {"session_id": 7, "session_epoch": 4}
    < {"session_id": 7}
    > Fetch v12 {"session_id": 7, "session_epoch": 5}
    < {"session_id": 7}
    ```
    ```story
    > Fetch v12 {"isolation_level": 1, "session_epoch": 0,
       "topics": [{"topic": "t", "partitions": [{"fetch_offset": 5}]}]}
    < {"session_id": 7, "responses": [{"topic": "t", "partitions": [
       {"high_watermark": 9, "last_stable_offset": 5, "records": ""}]}]}
    > Fetch v12 {"isolation_level": 1, "session_id": 7, "session_epoch": 1}
    < {"session_id": 7}
    > Fetch v12 {"isolation_level": 1, "session_id": 7, "session_epoch": 2}
    < {"session_id": 7}
    > Fetch v12 {"isolation_level": 1, "session_id": 7, "session_epoch": 3}
    < {"session_id": 7}
    > Fetch v12 {"isolation_level": 1, "session_id": 7, "session_epoch": 4}
    < {"session_id": 7}
    ```
    ```story
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"throttle_time_ms": 900, "responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"throttle_time_ms": 900, "responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"throttle_time_ms": 900, "responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"throttle_time_ms": 900, "responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": ""}]}]}
    > Fetch v4 {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
    < {"throttle_time_ms": 900, "responses": [{"topic": "t", "partitions": [{"high_watermark": 9, "records": ""}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-74%3A+Add+Fetch+Response+Size+Limit+in+Bytes
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-227%3A+Introduce+Incremental+FetchRequests+to+Increase+Partition+Scalability
    https://github.com/kafka-rust/kafka-rust/issues/57
    """
    fetches = connection.state(Fetches)
    request_body = event.request_body
    message = event.message
    if not fetches.is_response_empty or request_body is None or event.request is None or message is None:
        return
    body = message.body
    if body.get("throttle_time_ms") or body.get("error_code") or is_follower(request_body):
        return  # a quota empties the whole response, a replication quota single partitions
    state = connection.state(_StarvedPartitions)
    previous, state.partitions = state.partitions, {}
    starved = []
    connection.run.subscribe("S024")
    for topic_partition, (offset, end) in fetches.sessions.lagging_partitions(event.request, body).items():
        offset_before, times = previous.get(topic_partition, (offset, 0))
        times = times + 1 if offset_before == offset else 1
        if len(state.partitions) < _MAX_PARTITIONS:
            state.partitions[topic_partition] = offset, times
        if times % _INTERVAL == 0:
            starved.append((topic_partition, offset, end, times))
    if starved:
        topic_partition, offset, end, times = starved[0]
        end_name = end_field(request_body).replace("_", " ")
        others_text = f", and with it {count_text(len(starved) - 1, 'more partition')}" if len(starved) > 1 else ""
        yield Problem(
            f"{label(topic_partition, connection)} stays empty at offset {offset} below the {end_name} of {end}: "
            f"{times} responses in a row had no records and no error{others_text}",
            **locate(message, "responses", *_records_path(topic_partition, body)),
            hint="check the batch with that offset on the broker: it must be sent whole, even if it begins earlier "
            "or exceeds the limits of the request",
            expected=f"records from offset {offset}",
            got="none",
            cause=topic_partition[0],
        )


def _records_path(topic_partition: TopicPartition, body: Mapping[str, Any]) -> tuple[str | int, ...]:
    for i, topic in enumerate(body.get("responses") or ()):
        if topic_name_or_id(topic) == topic_partition[0]:
            for j, partition in enumerate(topic.get("partitions") or ()):
                if partition.get("partition_index") == topic_partition[1]:
                    return i, "partitions", j, "records"
    return ()
