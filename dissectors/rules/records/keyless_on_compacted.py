"""R022: records without a key in a compacted topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.topic_records import PartitionRecords
from dissectors.records import decode
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.compacted_topics import Compacted
from dissectors.trackers.partitions import label, topic_name_or_id
from dissectors.trackers.producers import Producers
from dissectors.trackers.record_data import sent_records
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_INVALID_RECORD = Error.INVALID_RECORD

#: The number of accepted batches to inspect for each topic of a connection.
_MAX_INSPECTED = 8
_MAX_TOPICS = 256
_MAX_BYTES = 1 << 20


class _InspectedBatches:
    """The number of inspected batches for each compacted topic."""

    def __init__(self) -> None:
        self.counts: BoundedDict[str, int] = BoundedDict(_MAX_TOPICS)


@rule(
    "R022",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(Compacted, Producers),
    since="0.1",
)
def keyless_on_compacted(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that records of a compacted topic have keys, and that the broker refuses records without one.

    ## Why it matters
    Compaction keeps the last record of each key. Kafka refuses a batch that has a record without a key, with
    INVALID_RECORD. A server that accepts it can neither keep nor drop such records correctly.

    ## Usual cause
    A topic created with `cleanup.policy=compact` for data that is not a table, or a producer that forgets keys.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "users", "partition_data": [{"records": [
      {"records": [{"key": "u1", "value": "a"}, {"value": "b"}]}]}]}]}
    < {"responses": [{"name": "users", "partition_responses": [{"error_code": 87, "base_offset": -1,
      "error_message": "One or more records have been rejected", "record_errors": [{"batch_index": 1,
      "batch_index_error_message": "Compacted topic cannot accept message without key in partition users-0."}]}]}]}
    ```
    ```story
    > CreateTopics v5 {"topics": [{"name": "users", "num_partitions": 1, "replication_factor": 1, "assignments": [],
      "configs": [{"name": "cleanup.policy", "value": "compact"}]}]}
    < {"topics": [{"name": "users", "error_code": 0}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "users", "partition_data": [{"records": [
      {"records": [{"value": "b"}]}]}]}]}
    < {"responses": [{"name": "users", "partition_responses": [{"base_offset": 0}]}]}
    ```

    ## Look-alikes
    INVALID_RECORD for another reason:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "users", "partition_data": [{"records": [
      {"records": [{"value": "b"}]}]}]}]}
    < {"responses": [{"name": "users", "partition_responses": [{"error_code": 87, "base_offset": -1,
      "error_message": "Clients are not allowed to write control records"}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#compaction
    https://github.com/apache/kafka/blob/trunk/storage/src/main/java/org/apache/kafka/storage/internals/log/LogValidator.java
    """
    request_body, message = event.request_body, event.message
    compacted = connection.run.state(Compacted).topics
    refused = connection.run.state(Producers).refused
    if request_body is None or message is None or not (compacted or refused):
        return
    for i, topic in enumerate(message.body.get("responses", ())):
        for j, row in enumerate(topic.get("partition_responses", ())):
            topic_partition, code = (topic_name_or_id(topic), row.get("index", 0)), row.get("error_code")
            name = connection.run.topic_names.get(topic_partition[0], topic_partition[0])
            is_compacted = (connection.server, name) in compacted
            if code not in (0, _INVALID_RECORD) or not (is_compacted or (code and _mentions_key(row))):
                continue
            if code == 0:
                counts = connection.state(_InspectedBatches).counts
                counts[name] = counts.get(name, 0) + 1
                if counts[name] > _MAX_INSPECTED:
                    continue
            record_index = _find_keyless_record(sent_records(event.request).get(topic_partition))
            if record_index is not None:
                outcome = "was refused with INVALID_RECORD" if code else "was accepted, should be INVALID_RECORD"
                yield Problem(
                    f"{label(topic_partition, connection)} is compacted: a batch whose record {record_index} has no "
                    f"key {outcome}",
                    **locate(message, "responses", i, "partition_responses", j, "error_code"),
                    hint="give every record a key, or set cleanup.policy=delete on the topic",
                    blame="client" if code else "broker",
                    cause=name,
                )


def _mentions_key(row: dict[str, Any]) -> bool:
    """Whether the broker's error message mentions keys."""
    messages = [row.get("error_message")]
    messages += [error.get("batch_index_error_message") for error in row.get("record_errors") or ()]
    return any(text and "key" in text.lower() for text in messages)


def _find_keyless_record(records: PartitionRecords | None) -> int | None:
    """Return the index of the first record without a key; None if all have one or the data is too large."""
    data = None if records is None else records.data
    batches = decode(data, limit=_MAX_BYTES) if data is not None and len(data) <= _MAX_BYTES else ()
    decoded = (record for batch in batches for record in batch.get("records", ()))
    return next((record_index for record_index, record in enumerate(decoded) if record["key"] is None), None)
