"""S049: records that were acknowledged but are missing from the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.trackers.fetches import Fetches
from dissectors.trackers.partitions import TopicPartition, label, topic_name_or_id
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

_MAX_PARTITIONS = 20_000
_MAX_AGE = 300 * 1_000_000_000
_ACKS_ALL = -1
_LATEST = -1


class _AcknowledgedOffsets(BoundedDict[tuple[str, TopicPartition], tuple[int, int]]):
    """The last offset acknowledged with acks=all, and when, per server and partition."""

    def __init__(self) -> None:
        super().__init__(_MAX_PARTITIONS)


@rule(
    "S049",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Produce",),
    also=(
        Trigger(
            (ResponseReceived,), ("Fetch", "ListOffsets", "CreateTopics", "DeleteTopics"), only=FrameFlags.SUBSCRIBED
        ),
    ),
    needs=(Fetches,),
    since="0.1",
    blame="broker",
)
def success_but_dropped(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a record acknowledged with acks=all has an offset below its partition's end.

    ## Why it matters
    With acks=all, the broker tells the producer that its records are safe. If the partition ends before their offset
    shortly afterwards, they are lost.

    ## Usual cause
    A gateway that answers a Produce before writing it, or never writes it; a broker that lost its disk; or an unclean
    leader election. A topic that was deleted and recreated in between looks the same, unless kproxy saw it happen.

    ## Example
    ```story
    > Produce v7 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [{}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 41}]}]}
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 41}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 41, "records": ""}]}]}
    ```
    ```story
    > Produce v7 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [{}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 41}]}]}
    > ListOffsets v4 {"topics": [{"name": "orders", "partitions": [{"timestamp": -1}]}]}
    < {"topics": [{"name": "orders", "partitions": [{"offset": 0}]}]}
    ```

    ## Look-alikes
    ```story
    > Produce v7 {"acks": 1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [{}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 41}]}]}
    > Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 41}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 41, "records": ""}]}]}
    2> Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 42}]}]}
    > Produce v7 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [{}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 42}]}]}
    2< {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 42, "records": ""}]}]}
    2> Fetch v11 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 42}]}]}
    2< {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 43, "records": [{"records": [{}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_acks
    https://github.com/seaweedfs/seaweedfs/pull/7231
    """
    message, request_body = event.message, event.request_body
    if message is None or request_body is None or event.request is None:
        return
    acknowledged = connection.run.state(_AcknowledgedOffsets)
    if message.api == "Produce":
        if request_body.get("acks") == _ACKS_ALL:
            if not acknowledged:
                connection.run.subscribe("S049")
            server, names = connection.server, connection.run.topic_names
            for topic in message.body.get("responses") or ():
                name = topic_name_or_id(topic)
                for row in topic.get("partition_responses") or ():
                    if not row.get("error_code") and (offset := row.get("base_offset", -1)) >= 0:
                        acknowledged[server, (names.get(name, name), row.get("index", 0))] = (offset, event.at)
        return
    if not acknowledged:
        return
    if message.api in ("CreateTopics", "DeleteTopics"):
        acknowledged.clear()
        return
    if message.api == "Fetch":
        if not connection.state(Fetches).is_response_empty:
            return
        ends, field = (
            _partition_rows(message.body, "responses", "partitions", "partition_index", connection),
            "high_watermark",
        )
    else:
        ends, field = _latest_offset_rows(request_body, message.body, connection), "offset"
    for topic_partition, row, path in ends:
        offset, acknowledged_at = acknowledged.get((connection.server, topic_partition), (-1, 0))
        end = row.get(field, -1)
        if end < 0 or end > offset or row.get("error_code"):
            continue
        if acknowledged_at >= event.request.at or event.at - acknowledged_at > _MAX_AGE:
            continue
        yield Problem(
            f"server {connection.server} acknowledged offset {offset} of {label(topic_partition, connection)} for all "
            f"replicas, but now reports {end} as the partition's end: the records are lost",
            hint="check that the broker stores before it answers, and that the topic was not deleted and recreated",
            expected=f"at least {offset + 1}",
            got=str(end),
            cause=label(topic_partition, connection),
            **locate(message, *path, field),
        )


def _partition_rows(
    body: Mapping[str, Any], topics_field: str, partitions_field: str, index_field: str, connection: ConnectionState
) -> Iterator[tuple[TopicPartition, Mapping[str, Any], tuple[str | int, ...]]]:
    names = connection.run.topic_names
    for i, topic in enumerate(body.get(topics_field) or ()):
        name = topic_name_or_id(topic)
        name = names.get(name, name)
        for j, row in enumerate(topic.get(partitions_field) or ()):
            yield (name, row.get(index_field, 0)), row, (topics_field, i, partitions_field, j)


def _latest_offset_rows(
    request_body: Mapping[str, Any], body: Mapping[str, Any], connection: ConnectionState
) -> Iterator[tuple[TopicPartition, Mapping[str, Any], tuple[str | int, ...]]]:
    """Yield the partition ends in a ListOffsets response.

    These are the ends requested with timestamp -1 and read_uncommitted: an open transaction lowers other ends.
    """
    if request_body.get("isolation_level", 0):
        return
    requested = {
        topic_partition
        for topic_partition, row, _ in _partition_rows(
            request_body, "topics", "partitions", "partition_index", connection
        )
        if row.get("timestamp") == _LATEST
    }
    for topic_partition, row, path in _partition_rows(body, "topics", "partitions", "partition_index", connection):
        if topic_partition in requested:
            yield topic_partition, row, path
