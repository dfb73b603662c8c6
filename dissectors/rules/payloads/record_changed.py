"""P011: a fetched record that differs from the produced one."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RecordsDecoded, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.record_parts import record_problem
from dissectors.trackers.produced_records import ChangedRecord, ProducedRecords
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.values import DecodedPart, DecodedValue, ValueProblem


@rule(
    "P011",
    severity=Severity.WARNING,
    events=(RecordsDecoded,),
    also=(Trigger((ResponseReceived,), apis=("Produce",), only=FrameFlags.IRREGULAR),),
    needs=(ProducedRecords,),
    since="0.1",
    blame="broker",
)
def record_changed(event: RecordsDecoded | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that records are fetched as they were produced: key, value, headers and timestamp.

    It compares records at the same offset on the same server. If a consumer gets a record before the producer gets its
    response, the finding is reported at the response.

    ## Why it matters
    Kafka never changes the content of records. Consumers cannot decode a value whose schema id is missing or different,
    and code that counts, compares or signs bytes fails if a value was encoded again.

    ## Usual cause
    A gateway or broker that removes the schema id, stores the fields, and rebuilds the record for consumers. It loses
    everything that it does not store: headers, nulls, other envelopes, the producer's encoding.

    ## Example
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}, "timestamp": 1767225600000}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 7}]}]}
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 8, "records": [{"base_offset": 7,
      "records": [{"value": {"hex": "22"}, "timestamp": 1767225600000}]}]}]}]}
    ```

    ## Look-alikes
    A broker that compresses records, chooses their timestamps, and removes headers for a client of an old format:
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}, "timestamp": 1767225600000}]}]}]},
      {"name": "old", "partition_data": [{"records": [{"records": [
      {"value": "a", "headers": [{"key": "h", "value": "v"}]}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [
      {"base_offset": 7, "log_append_time_ms": 1767225600123}]},
      {"name": "old", "partition_responses": [{"base_offset": 7}]}]}
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 8, "records": [{"base_offset": 7,
      "compression": "gzip", "timestamp_type": "LogAppendTime", "max_timestamp": 1767225600123,
      "base_timestamp": 1767225600000,
      "records": [{"value": {"hex": "00 00000011 22"}, "create_timestamp": 1767225600000}]}]}]}]}
    > Fetch v3 {"topics": [{"topic": "old", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "old", "partitions": [{"high_watermark": 8, "records": [{"base_offset": 7, "magic": 1,
      "records": [{"value": "a"}]}]}]}]}
    ```

    A retry by an idempotent producer: the broker already has the batch, and its response has the batch's last timestamp
    as the append time, even for topics that keep the producer's timestamps:
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}, "timestamp": 1767225600000},
      {"value": {"hex": "00 00000011 24"}, "timestamp": 1767225600005}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [
      {"base_offset": 7, "log_append_time_ms": 1767225600005}]}]}
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{"fetch_offset": 7}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 9, "records": [{"base_offset": 7,
      "records": [{"value": {"hex": "00 00000011 22"}, "timestamp": 1767225600000},
      {"value": {"hex": "00 00000011 24"}, "timestamp": 1767225600005}]}]}]}]}
    ```

    Another record at the same offset, because the topic was recreated:
    ```story
    schema 17 orders-value {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [{"records": [
      {"value": {"hex": "00 00000011 22"}, "timestamp": 1767225600000}]}]}]}]}
    < {"responses": [{"name": "orders", "partition_responses": [{"base_offset": 0}]}]}
    > Fetch v12 {"topics": [{"topic": "orders", "partitions": [{}]}]}
    < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 1, "records": [{
      "records": [{"value": {"hex": "00 00000011 24"}, "timestamp": 1767225605000}]}]}]}]}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#recordbatch
    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
    """
    for changed_record in connection.run.state(ProducedRecords).changed:
        change, record = changed_record.change, changed_record.fetched.record
        if isinstance(event, RecordsDecoded):
            data = record.key if change.part == "key" else record.value if change.part == "value" else None
            value = DecodedValue("", None, problem=ValueProblem("", change.offset))
            part = DecodedPart(record.topic, change.part, f"{record.path}.{change.part}", data or b"", value)
            yield record_problem(event, part, _change_text(changed_record), hint=_HINT, cause=change.kind)
        else:
            text = f"{record.topic}, {change.part}: {_change_text(changed_record)}"
            yield Problem(text, hint=_HINT, cause=f"{record.topic} {change.part} {change.kind}")


_HINT = "compare what the server stores with what it received: return keys, values and headers byte for byte"


def _change_text(changed_record: ChangedRecord) -> str:
    """Return what changed, which frame produced the record, and the time from there to the fetch (may be negative)."""
    produced, fetched = changed_record.produced, changed_record.fetched
    elapsed_ms = (fetched.at - produced.at) // 1_000_000
    return (
        f"offset {changed_record.offset} is not as it was produced: {changed_record.change.text} (produced "
        f"{elapsed_ms} ms before the fetch, with correlation id {produced.correlation_id} on connection "
        f"{produced.connection_id})"
    )
