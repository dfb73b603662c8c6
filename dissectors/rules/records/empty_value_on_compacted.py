"""R028: an empty value in a compacted topic, which deletes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.messages.topic_records import PartitionRecords
from dissectors.records import decode
from dissectors.rules import rule
from dissectors.trackers.compacted_topics import Compacted
from dissectors.trackers.partitions import label, topic_name_or_id
from dissectors.trackers.record_data import sent_records
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: The number of accepted batches to inspect for each topic of a connection.
_MAX_INSPECTED = 32
_MAX_TOPICS = 256
_MAX_BYTES = 1 << 16


class _InspectedBatches:
    """The number of inspected batches for each compacted topic."""

    def __init__(self) -> None:
        self.counts: BoundedDict[str, int] = BoundedDict(_MAX_TOPICS)


@rule(
    "R028",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(Compacted,),
    since="0.1",
    blame="client",
)
def empty_value_on_compacted(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports records of a compacted topic whose value is empty but not null, so that they delete nothing.

    ## Why it matters
    Compaction deletes a key after a record whose value is null (a tombstone, length -1). A value of length 0 is a value
    like any other: the key stays forever, and consumers try to decode it.

    ## Usual cause
    A client that writes null as 0 bytes, or a serializer that returns an empty array for null. An application that
    keeps only keys may mean it.

    ## Example
    ```story
    > CreateTopics v5 {"topics": [{"name": "users", "num_partitions": 1, "replication_factor": 1, "assignments": [],
      "configs": [{"name": "cleanup.policy", "value": "compact"}]}]}
    < {"topics": [{"name": "users", "num_partitions": 1, "replication_factor": 1}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "users", "partition_data": [{"records": [
      {"records": [{"key": "u1", "value": "a"}, {"key": "u1", "value": ""}]}]}]}]}
    < {"responses": [{"name": "users", "partition_responses": [{"base_offset": 0}]}]}
    ```

    ## Look-alikes
    ```story
    > CreateTopics v5 {"topics": [{"name": "users", "num_partitions": 1, "replication_factor": 1, "assignments": [],
      "configs": [{"name": "cleanup.policy", "value": "compact"}]}]}
    < {"topics": [{"name": "users", "num_partitions": 1, "replication_factor": 1}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "users", "partition_data": [{"records": [
      {"records": [{"key": "u1", "value": "a"}, {"key": "u1", "value": null}]}]}]}]}
    < {"responses": [{"name": "users", "partition_responses": [{"base_offset": 0}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "events", "partition_data": [{"records": [
      {"records": [{"key": "u1", "value": ""}]}]}]}]}
    < {"responses": [{"name": "events", "partition_responses": [{"base_offset": 0}]}]}
    ```

    ## Sources
    https://github.com/platformatic/kafka/issues/216
    https://kafka.apache.org/documentation/#compaction
    """
    message = event.message
    compacted = connection.run.state(Compacted).topics
    if message is None or event.request is None or not compacted:
        return
    for i, topic in enumerate(message.body.get("responses", ())):
        for j, row in enumerate(topic.get("partition_responses", ())):
            topic_partition = (topic_name_or_id(topic), row.get("index", 0))
            name = connection.run.topic_names.get(topic_partition[0], topic_partition[0])
            if row.get("error_code") or (connection.server, name) not in compacted:
                continue
            counts = connection.state(_InspectedBatches).counts
            counts[name] = counts.get(name, 0) + 1
            if counts[name] > _MAX_INSPECTED:
                continue
            index = _find_empty_value(sent_records(event.request).get(topic_partition))
            if index is not None:
                yield Problem(
                    f"{label(topic_partition, connection)} is compacted: the value of record {index} is empty (length "
                    "0), not null (length -1), so it does not delete its key",
                    **locate(message, "responses", i, "partition_responses", j),
                    hint="to delete a key, send null: check the client's encoding of null and the value serializer",
                    cause=name,
                )


def _find_empty_value(records: PartitionRecords | None) -> int | None:
    """Return the index of the first record with a key and an empty value; None if there is none or too much data."""
    data = None if records is None else records.data
    batches = decode(data, limit=_MAX_BYTES) if data is not None and len(data) <= _MAX_BYTES else ()
    decoded = (record for batch in batches for record in batch.get("records", ()))
    indexes = (index for index, record in enumerate(decoded) if record["key"] is not None and record["value"] == b"")
    return next(indexes, None)
