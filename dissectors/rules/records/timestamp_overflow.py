"""R018: implausible timestamps."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.records.faults import FaultKind
from dissectors.records.record_checks import BatchSpan
from dissectors.rules import rule
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import (
    RecordData,
    fault_problem,
    faults_of_kind,
    is_recent,
    problem_location,
    record_data,
    severity_in_traffic,
)
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_DAY = 24 * 3600 * 1000
_NO_TIMESTAMP = -1

#: (unit, factor, divisor): how to convert a timestamp in this unit to milliseconds.
_UNITS = (("seconds", 1000, 1), ("microseconds", 1, 1000), ("nanoseconds", 1, 1_000_000))


@rule(
    "R018",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch", "ShareFetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def timestamp_overflow(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that produced timestamps are plausible times in milliseconds, and that deltas fit a varlong.

    ## Why it matters
    Retention, `offsetsForTimes` and stream processing windows use them: a record from the far future keeps its segment
    forever, one from 1970 is deleted at once. Kafka 4.0 refuses timestamps more than an hour ahead.

    ## Usual cause
    Seconds, microseconds or nanoseconds instead of milliseconds, or an overflow. Deltas between the records of a batch
    may exceed 32 bits (25 days): a client that reads them as varints instead of varlongs fails.

    ## Example
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a", "timestamp": 1767225600}]}]}]}]}
    ```
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a", "timestamp": 1767225600000000}]}]}]}]}
    ```

    ## Look-alikes
    No timestamp, a current one, and an old one:
    ```story
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a", "timestamp": -1}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a", "timestamp": 1767225600500}]}]}]}]}
    > Produce v9 {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"records": [
      {"records": [{"value": "a", "timestamp": 946684800000}]}]}]}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-937%3A+Improve+Message+Timestamp+Validation
    https://github.com/kafka-protocol-rs/kafka-protocol-rs/issues/159
    https://github.com/apache/kafka/pull/7167
    """
    for part, fault in faults_of_kind(event, connection, FaultKind.TIMESTAMP):
        is_valid = "more than 32 bits" in fault.message
        hint = "read timestamp deltas as varlongs" if is_valid else "write timestamps in milliseconds since 1970"
        yield fault_problem(event, connection, part, fault, hint, Severity.INFO if is_valid else None)
    if not isinstance(event, RequestReceived) or not event.at:
        return
    now_ms = event.at // 1_000_000
    for part in record_data(event, connection).parts:
        for index, batch in enumerate(part.batches):
            if (
                batch.magic
                and not is_recent(batch, event)
                and (fault_text := _timestamp_fault(batch.max_timestamp, now_ms))
            ):
                name, span = _timestamp_field(batch)
                yield Problem(
                    f"{label(part.topic_partition, connection)}: the timestamp {batch.max_timestamp} {fault_text}",
                    **problem_location(event, part, batch.start + span[0], batch.start + span[1], str(index), name),
                    hint="write timestamps in milliseconds since 1970, or -1 for none",
                    blame="client",
                    severity=severity_in_traffic(connection),
                    got=str(batch.max_timestamp),
                    cause=part.topic_partition[0],
                )
                break


def _timestamp_fault(timestamp: int, now_ms: int) -> str | None:
    if timestamp < _NO_TIMESTAMP:
        return "is negative, should be milliseconds since 1970"
    for unit, factor, divisor in _UNITS:
        if abs(timestamp * factor // divisor - now_ms) < _DAY:
            return f"looks like {unit}, should be milliseconds"
    return "is more than a day in the future" if timestamp > now_ms else None


def _timestamp_field(batch: BatchSpan) -> tuple[str, tuple[int, int]]:
    return ("max_timestamp", (35, 43)) if batch.magic == 2 else ("timestamp", (18, 26))
