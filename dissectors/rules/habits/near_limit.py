"""M008: batches near the size limit of their topic."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.messages.topic_records import topic_records
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.schemas.codes import Error
from dissectors.trackers.partitions import refusals
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger

SHARE = Limit("share", 80, "%", "batches have at least this share of the limit")
BATCHES = Limit("batches", 3, "batches", "so many of a connection to a topic")

_MAX_TOPICS = 10_000
_TOPIC_RESOURCE = 2
#: The number of bytes at the start of a batch that its length field does not count.
_PREFIX_BYTES = 12
_TOO_LARGE_ERRORS = (Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE)


class _Limits(BoundedDict[tuple[str, str], int]):
    """The size limits (bytes) that were set, described or enforced for topics, by server and topic."""

    def __init__(self) -> None:
        super().__init__(_MAX_TOPICS)


class _LargeBatches:
    """The large batches of a connection: how many there are for each topic, and the size of the largest."""

    def __init__(self) -> None:
        self.topics: BoundedDict[str, tuple[int, int]] = BoundedDict(_MAX_TOPICS)


@rule(
    "M008",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.SUBSCRIBED,  # once a limit is known
    also=(
        Trigger((ResponseReceived,), ("Produce",), only=FrameFlags.REFUSED),
        Trigger((ResponseReceived,), ("CreateTopics", "DescribeConfigs")),
    ),
    limits=(SHARE, BATCHES),
    since="0.1",
    blame="client",
)
def near_limit(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports batches above 80 % of a topic's size limit, if kproxy has seen that limit.

    ## Why it matters
    A batch over the limit is refused as a whole (MESSAGE_TOO_LARGE). A batch barely below the limit will exceed it with
    one more record, a longer value, or data that compresses less well.

    ## Usual cause
    `batch.size` or `max.request.size` of the producer is near `max.message.bytes` of the topic. kproxy knows a topic's
    limit if it was set or described while kproxy watched, or if a batch was refused.

    ## Example
    ```story
    rule M008:batches=2
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [],
      "configs": [{"name": "max.message.bytes", "value": "1000"}]}]}
    < {"topics": [{"name": "t", "error_code": 0}]}
    > Produce v9 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": {"repeat": "v", "times": 900}}]}]}]}]}
    < {"responses": []}
    > Produce v9 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": {"repeat": "v", "times": 900}}]}]}]}]}
    ```

    ## Look-alikes
    ```story
    rule M008:batches=2
    > CreateTopics v5 {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [],
      "configs": [{"name": "max.message.bytes", "value": "2000"}]}]}
    < {"topics": [{"name": "t", "error_code": 0}]}
    > Produce v9 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": {"repeat": "v", "times": 900}}]}]}]}]}
    < {"responses": []}
    > Produce v9 {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"records": [
      {"records": [{"value": {"repeat": "v", "times": 900}}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#topicconfigs_max.message.bytes
    """
    run = connection.run
    limits = run.state(_Limits)
    if isinstance(event, ResponseReceived):
        if _learn_limits(event, connection, limits):
            run.subscribe("M008", api="Produce")
        return
    share, large_batches = run.limit(SHARE), connection.state(_LargeBatches).topics
    for topic in topic_records(event.message):
        name = run.topic_names.get(topic.key, topic.key)
        limit = limits.get((connection.server, name))
        if limit is None:
            continue
        for records in topic.partitions:
            size = 0 if records.batch is None else records.batch.batch_length + _PREFIX_BYTES
            if size > limit or size * 100 < limit * share:  # a batch over the limit is refused (R021)
                continue
            count, largest = large_batches.get(name, (0, 0))
            large_batches[name] = count, largest = count + 1, max(largest, size)
            if count == run.limit(BATCHES):
                yield Problem(
                    f"{client_label(connection)} sent {count} batches of up to {largest:,} bytes to topic {name!r}, "
                    f"whose limit is {limit:,} bytes",
                    hint="raise max.message.bytes of the topic, or lower max.request.size and batch.size of the client",
                    cause=name,
                )


def _learn_limits(event: ResponseReceived, connection: ConnectionState, limits: _Limits) -> bool:
    """Store the limits in a response, and return whether there were any."""
    message, request_body = event.message, event.request_body
    if message is None or request_body is None:
        return False
    topic_limits: list[tuple[str, int]] = []
    if message.api == "Produce":
        topic_limits = [*_refused_limits(event, connection)]
    elif message.api == "CreateTopics":
        accepted = {row.get("name") for row in message.body.get("topics", ()) if not row.get("error_code")}
        topic_limits = [
            (topic["name"], size)
            for topic in request_body.get("topics", ())
            if topic.get("name") in accepted and not request_body.get("validate_only")
            if (size := _size_limit(topic.get("configs")))
        ]
    else:
        topic_limits = [
            (row["resource_name"], size)
            for row in message.body.get("results", ())
            if row.get("resource_type") == _TOPIC_RESOURCE and not row.get("error_code")
            if (size := _size_limit(row.get("configs")))
        ]
    for name, size in topic_limits:
        limits[connection.server, name] = size
    return bool(topic_limits)


def _size_limit(configs: object) -> int:
    """Return the size limit among a topic's configs, or 0 if there is none."""
    for config in configs if isinstance(configs, list) else ():
        if config.get("name") == "max.message.bytes" and str(config.get("value")).isdecimal():
            return min(int(config["value"][:20]), 1 << 31)
    return 0


def _refused_limits(event: ResponseReceived, connection: ConnectionState) -> Iterator[tuple[str, int]]:
    """Yield each topic with a batch that was too large, and a limit below the size of that batch."""
    assert event.message is not None
    assert event.request is not None
    refused = {
        refusal.topic_partition
        for refusal in refusals(event.message.body, "partition_responses", "index")
        if refusal.code in _TOO_LARGE_ERRORS
    }
    for topic in topic_records(event.request.message) if refused else ():
        name = connection.run.topic_names.get(topic.key, topic.key)
        for records in topic.partitions:
            if (topic.key, records.partition or 0) in refused and records.batch is not None:
                size = records.batch.batch_length + _PREFIX_BYTES - 1
                limit = connection.run.state(_Limits).get((connection.server, name), size)
                yield name, min(size, limit)
