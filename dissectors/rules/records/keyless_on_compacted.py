"""R022: records without a key in a compacted topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.records import decode
from dissectors.rules import rule
from dissectors.trackers.compacted_topics import Compacted
from dissectors.trackers.partitions import label, topic_of
from dissectors.trackers.producers import Producers
from dissectors.trackers.record_data import sent_records
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_INVALID_RECORD = 87

#: Batches that were taken are looked into so often for each topic of a connection.
_TIMES = 8
_MOST_TOPICS = 256
_MOST_BYTES = 1 << 20


class _Looked:
    """How often batches of a compacted topic were looked into."""

    def __init__(self) -> None:
        self.times: BoundedDict[str, int] = BoundedDict(_MOST_TOPICS)


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
    """Checks that records of a compacted topic have keys, and that the broker refuses those without.

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

    ## Looks alike
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
    asked, message = event.request_body, event.message
    compacted = connection.run.state(Compacted).topics
    refused = connection.run.state(Producers).refused
    if asked is None or message is None or not (compacted or refused):
        return
    for i, topic in enumerate(message.body.get("responses", ())):
        for j, row in enumerate(topic.get("partition_responses", ())):
            place, code = (topic_of(topic), row.get("index", 0)), row.get("error_code")
            name = connection.run.topic_names.get(place[0], place[0])
            known = (connection.server, name) in compacted
            if code not in (0, _INVALID_RECORD) or not (known or (code and _names_keys(row))):
                continue
            if code == 0:
                times = connection.state(_Looked).times
                times[name] = times.get(name, 0) + 1
                if times[name] > _TIMES:
                    continue
            which = _without_key(sent_records(asked).get(place))
            if which is not None:
                outcome = "was refused with INVALID_RECORD" if code else "was accepted, should be INVALID_RECORD"
                yield Problem(
                    f"{label(place, connection)} is compacted: a batch whose record {which} has no key {outcome}",
                    **locate(message, "responses", i, "partition_responses", j, "error_code"),
                    hint="give every record a key, or set cleanup.policy=delete on the topic",
                    blame="client" if code else "broker",
                    cause=name,
                )


def _names_keys(row: dict[str, Any]) -> bool:
    """Whether the broker's own words are about keys."""
    said = [row.get("error_message")]
    said += [each.get("batch_index_error_message") for each in row.get("record_errors") or ()]
    return any(text and "key" in text.lower() for text in said)


def _without_key(data: memoryview | None) -> int | None:
    """The first record without a key in record data."""
    batches = decode(data, limit=_MOST_BYTES) if data is not None and len(data) <= _MOST_BYTES else ()
    records = (record for batch in batches for record in batch.get("records", ()))
    return next((which for which, record in enumerate(records) if record["key"] is None), None)
