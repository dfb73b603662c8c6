"""H006: a producer whose records mostly have the same key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dissectors.connections.events import RequestReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.topic_records import topic_records
from dissectors.records import decode
from dissectors.rules import rule
from dissectors.rules.helpers.clients import client_label
from dissectors.trackers.partitions import label
from dissectors.trackers.produce_habits import SKEW, SKEW_RECORDS, ProduceHabits, Skew
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: The largest batch (bytes) whose keys are read, and the minimum share of its most frequent key.
_MAX_BYTES = 1 << 20
_MIN_SHARE = 0.5


@rule(
    "H006",
    severity=Severity.INFO,
    events=(RequestReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(ProduceHabits,),
    limits=(SKEW_RECORDS, SKEW),
    since="0.1",
    blame="client",
)
def key_skew(event: RequestReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports producers that write most records of a topic to one of several partitions because of one key.

    ## Why it matters
    All records of a key go to one partition. Its broker and its one consumer do most of the work, and adding partitions
    or consumers does not help.

    ## Usual cause
    A key with few values, such as a country, a tenant or a type, or a default like "unknown" for records without one.
    kproxy reads the keys of one batch for that partition, but does not print them. The connection must use at least
    three partitions of the topic.

    ## Example
    ```story
    rule H006:records=8
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"index": 0, "records": [{"records": [{"key": "de", "value": "1"}, {"key": "de", "value": "2"},
        {"key": "de", "value": "3"}, {"key": "de", "value": "4"}, {"key": "de", "value": "5"},
        {"key": "de", "value": "6"}, {"key": "de", "value": "7"}, {"key": "de", "value": "8"}]}]},
      {"index": 1, "records": [{"records": [{"key": "fr", "value": "1"}]}]},
      {"index": 2, "records": [{"records": [{"key": "it", "value": "1"}]}]}]}]}
    ```

    ## Look-alikes
    Records without a key, which fill one batch after another, and different keys that share a partition:
    ```story
    rule H006:records=8
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"index": 0, "records": [{"records": [{"value": "1"}, {"value": "2"}, {"value": "3"}, {"value": "4"},
        {"value": "5"}, {"value": "6"}, {"value": "7"}, {"value": "8"}]}]},
      {"index": 1, "records": [{"records": [{"value": "1"}]}]},
      {"index": 2, "records": [{"records": [{"value": "1"}]}]}]}]}
    ```
    ```story
    rule H006:records=8
    > Produce v9 {"acks": -1, "topic_data": [{"name": "t", "partition_data": [
      {"index": 0, "records": [{"records": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"},
        {"key": "c", "value": "3"}, {"key": "d", "value": "4"}, {"key": "e", "value": "5"},
        {"key": "f", "value": "6"}, {"key": "g", "value": "7"}, {"key": "h", "value": "8"}]}]},
      {"index": 1, "records": [{"records": [{"key": "i", "value": "1"}]}]},
      {"index": 2, "records": [{"records": [{"key": "j", "value": "1"}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_partitioner.class
    """
    habits = connection.state(ProduceHabits)
    skew = habits.skew
    if skew is None or (keys := _batch_keys(event, skew)) is None:
        return  # wait for a request with a batch for the partition
    habits.skew = None
    [(key, most_frequent_count)] = keys.most_common(1) or [(None, 0)]  # no keys if the batch is too large
    total = keys.total()
    if key is not None and most_frequent_count >= _MIN_SHARE * total:
        partition_name = label((skew.topic, skew.partition or 0), connection)
        yield Problem(
            f"{client_label(connection)} sent {skew.records:,} of {skew.total:,} records to {partition_name}, one of "
            f"{skew.partition_count} partitions in use: {most_frequent_count:,} of {total:,} records in its latest "
            "batch have the same key",
            hint="choose a key with more values, such as an id, or leave it out if order does not matter",
            cause=skew.topic,
        )


def _batch_keys(event: RequestReceived, skew: Skew) -> Counter[bytes | None] | None:
    """Return the keys in the request's batch for the partition: None if there is none, no keys if it is too large."""
    keys: Counter[bytes | None] | None = None
    for topic in topic_records(event.message):
        for records in topic.partitions if topic.key == skew.topic else ():
            if records.partition == skew.partition and records.data:
                keys = Counter()
                data = records.data if len(records.data) <= _MAX_BYTES else b""
                for batch in decode(data, limit=_MAX_BYTES):
                    keys.update(record["key"] for record in batch.get("records", ()))
    return keys
