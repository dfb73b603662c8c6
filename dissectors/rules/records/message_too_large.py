"""R021: a batch that the broker refuses because of its size."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.bounded import BoundedDict
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.records.formats import LOG_OVERHEAD
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.partitions import TopicPartition, label
from dissectors.trackers.producers import Producers
from dissectors.trackers.record_data import sent_records
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MESSAGE_TOO_LARGE = Error.MESSAGE_TOO_LARGE

#: After this many refused single records in a topic, the severity is error.
_THRESHOLD = 3
_MAX_TOPICS = 1_000


class _RefusedRecords:
    """The number of refused single records, by server and topic."""

    def __init__(self) -> None:
        self.counts: BoundedDict[tuple[str, str], int] = BoundedDict(_MAX_TOPICS)


@rule(
    "R021",
    severity=Severity.ERROR,
    events=(ResponseReceived,),
    apis=("Produce",),
    only=FrameFlags.IRREGULAR,
    needs=(Producers,),
    since="0.1",
    blame="client",
)
def message_too_large(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that a client does not keep sending records that exceed the broker's size limit.

    The first refusals are info: the client reports them to the application, or splits a batch of several records.

    ## Why it matters
    The record is lost unless the application handles the error; sending it again does not help.

    ## Usual cause
    `max.request.size` of the producer exceeds `max.message.bytes` of the topic or `message.max.bytes` of the broker.
    The limits apply to the compressed batch.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a large one"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 10, "base_offset": -1}]}]}
    ```

    ## Look-alikes
    Another error:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a large one"}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"error_code": 6, "base_offset": -1}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#topicconfigs_max.message.bytes
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-126+-+Allow+KafkaProducer+to+split+and+resend+oversized+batches
    """
    refused = connection.run.state(Producers).refused
    if not refused or event.request_body is None or event.message is None:
        return
    records_by_partition = sent_records(event.request)
    for topic_partition, code, path in refused:
        records = records_by_partition.get(topic_partition) if code == _MESSAGE_TOO_LARGE else None
        if records is not None and (batch := records.batch) is not None:
            has_several_records = batch.records_count > 1
            times = 0 if has_several_records else _count_refusal(topic_partition, connection)
            content = f"{batch.records_count} records" if has_several_records else "one record"
            repeats_text = f", {times} times now" if times >= _THRESHOLD else ""
            yield Problem(
                f"Produce to {label(topic_partition, connection)}: a batch of {batch.batch_length + LOG_OVERHEAD} "
                f"bytes with {content} was refused with MESSAGE_TOO_LARGE{repeats_text}",
                **locate(event.message, *path),
                hint="raise max.message.bytes of the topic, or send smaller records; the producer may split a batch",
                severity=None if repeats_text else Severity.INFO,
                cause=f"{topic_partition[0]} {bool(repeats_text)}",
            )


def _count_refusal(topic_partition: TopicPartition, connection: ConnectionState) -> int:
    counts = connection.run.state(_RefusedRecords).counts
    key = connection.server, topic_partition[0]
    counts[key] = counts.get(key, 0) + 1
    return counts[key]
