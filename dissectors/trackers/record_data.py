"""RecordData: the record data of the current message, examined once for all rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.embedded.coordinators import COMPONENTS
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import ProblemLocation, locate
from dissectors.messages.message import Message
from dissectors.messages.topic_records import PartitionRecords, topic_records
from dissectors.records.checks import MAX_SUSPECTS, are_valid, examine, is_valid
from dissectors.records.compression import CODECS
from dissectors.records.faults import Fault, FaultKind
from dissectors.records.formats import CONTROL
from dissectors.records.record_checks import BatchSpan
from dissectors.trackers import partitions, tracker
from dissectors.trackers.partitions import label
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.wire.paths import render

#: For each topic, connection and direction, the first batches are examined, then one in every interval.
FIRST_BATCHES = 8
SAMPLING_INTERVAL = 256

#: Batches with more records than this are not examined.
MAX_RECORDS = 10_000

#: Topics counted separately per connection; further topics share one counter.
MAX_TOPICS = 256

_OLD_FORMATS = 0b011  # record formats 0 and 1
_FORMAT_2_SINCE, _ZSTD_SINCE = 4, 7  # versions of Fetch and Produce
_ZSTD = CODECS.index("zstd")
_NO_TIMESTAMP = -1
_DAY = 24 * 3600 * 1000  # ms
_TEN_YEARS = 10 * 365 * _DAY

_IRREGULAR = FrameFlags.IRREGULAR.value

FrameEvent = RequestReceived | ResponseReceived
Path = tuple[str | int, ...]

# Field names for topics and partitions in Produce and Fetch.
_PRODUCE = "topic_data", "partition_data"
_FETCH = "responses", "partitions"


class PartitionData(NamedTuple):
    """One partition of a message with record data: its path in the body, its struct, and its batches."""

    topic_partition: partitions.TopicPartition
    path: Path
    row: dict[str, Any]
    batches: list[BatchSpan]
    cut_off: int


_NO_FAULTS: list[tuple[PartitionData, Fault]] = []
_new_tuple = tuple.__new__  # faster than `PartitionData(...)`, for each partition with records


@dataclass(slots=True)
class BatchSampler:
    """Counts the batches of each topic on a connection, to select those that are examined."""

    batches: dict[tuple[object, str | None], int] = field(default_factory=dict)

    def selects(self, purpose: object, topic: str, records: int = 1) -> bool:
        """Count a topic's next batch, which has `records` records; return whether to examine it for a purpose."""
        key: tuple[object, str | None] = (purpose, topic)
        count = self.batches.get(key)
        if count is None:
            if len(self.batches) >= MAX_TOPICS:
                key = (purpose, None)
            count = self.batches.get(key, 0)
        self.batches[key] = count = count + 1
        return records <= MAX_RECORDS and (count <= FIRST_BATCHES or count % SAMPLING_INTERVAL == 0)

    def skips(self, purpose: object, topic: str, batch_count: int) -> bool:
        """Count a topic's next batches if none of them is to be examined; return whether that is so."""
        key = (purpose, topic)
        count = self.batches.get(key, 0)
        last_count = count + batch_count
        if count < FIRST_BATCHES or count // SAMPLING_INTERVAL != last_count // SAMPLING_INTERVAL:
            return False
        self.batches[key] = last_count
        return True


@tracker(
    events=(RequestReceived,),
    apis=("Produce",),
    also=(Trigger((ResponseReceived,), apis=("Fetch", "ShareFetch")),),
)
@dataclass(slots=True)
class RecordData:
    """The record data of the current message, kept until the next message with records.

    `failed` are the partitions with an error code; `null` are the partitions without an error code whose records are
    null. `attributes` combines the attributes of all batches; `magics` has a bit for each record format. A message that
    may interest a rule is flagged as irregular; the rules do not look at other messages.
    """

    message: Message | None = None
    parts: list[PartitionData] = field(default_factory=list)
    failed: list[PartitionData] = field(default_factory=list)
    null: list[PartitionData] = field(default_factory=list)
    faults: dict[FaultKind, list[tuple[PartitionData, Fault]]] = field(default_factory=dict)
    attributes: int = 0
    magics: int = 0
    suspects: int = 0

    def observe(self, event: FrameEvent, connection: ConnectionState) -> None:
        """Examine a Produce request, or a Fetch or ShareFetch response."""
        message = event.message
        if message is None:
            return
        self.message, self.parts, self.failed, self.null, self.faults = message, [], [], [], {}
        self.attributes = self.magics = self.suspects = 0
        topics, rows = _PRODUCE if message.is_request else _FETCH
        for topic_index, (name, topic_id, topic_partitions) in enumerate(topic_records(message)):
            topic = name or topic_id or ""
            for partition_index, (partition, row, data, _, batches) in enumerate(topic_partitions):
                if not data and data is not None and not row.get("error_code"):
                    continue
                path = (topics, topic_index, rows, partition_index)
                part = _new_tuple(PartitionData, ((topic, partition or 0), path, row, [], 0))
                if data:
                    self._examine(data, batches, part, event, connection)
                elif row.get("error_code"):
                    self.failed.append(part)
                elif "records" in row:
                    self.null.append(part)
        unusual = self.failed or self.null or self.magics & _OLD_FORMATS or self.attributes & CONTROL
        if self.faults or unusual or (self._is_odd_produce() if message.is_request else self._is_odd_fetch(event)):
            connection.flags |= _IRREGULAR

    def _is_odd_produce(self) -> bool:
        """Whether the acks of a Produce are invalid, or other than -1 for an idempotent producer."""
        assert self.message is not None
        acks = self.message.body.get("acks", -1)
        return acks != -1 and (
            acks not in (0, 1) or any(batch.producer_id >= 0 for part in self.parts for batch in part.batches)
        )

    def _is_odd_fetch(self, event: FrameEvent) -> bool:
        """Whether a Fetch response has batches for an old client, or exceeds the client's max_bytes."""
        message = event.message
        if message is None or message.api != "Fetch" or isinstance(event, RequestReceived):
            return False
        request_body = event.request_body
        is_large = request_body is not None and event.size > request_body.get("max_bytes", event.size)
        return is_large or (message.version < _FORMAT_2_SINCE and bool(self.parts))

    def _examine(
        self,
        data: bytes | memoryview,
        batches: Sequence[BatchSpan],
        part: PartitionData,
        event: FrameEvent,
        connection: ConnectionState,
    ) -> None:
        assert self.message is not None
        produced, topic = self.message.is_request, part.topic_partition[0]
        sampler = connection.state(BatchSampler)
        count = len(batches)
        is_selected = count == 1 and is_valid(data, batches[0], produced=produced)
        if is_selected and not sampler.selects(produced, topic, batches[0].records_count):
            part.batches.append(batches[0])
        elif count > 1 and are_valid(data, batches, produced=produced) and sampler.skips(produced, topic, count):
            part.batches.extend(batches)
        else:
            part = self._examine_batches(data, batches, part, sampler, is_selected=is_selected)
        self.parts.append(part)
        for batch in part.batches:
            self.attributes |= batch.attributes
            self.magics |= 1 << batch.magic
            if batch.max_timestamp < batch.base_timestamp:
                connection.flags |= _IRREGULAR
        is_coordinators = connection.run.topic_names.get(topic, topic) in COMPONENTS
        if is_coordinators or not part.batches or (produced and not self._is_ordinary(part, event)):
            connection.flags |= _IRREGULAR

    def _examine_batches(
        self,
        data: bytes | memoryview,
        batches: Sequence[BatchSpan],
        part: PartitionData,
        sampler: BatchSampler,
        *,
        is_selected: bool,
    ) -> PartitionData:
        """Examine record data. Either its only batch `is_selected`, or `sampler` selects the batches."""
        assert self.message is not None
        produced = self.message.is_request
        examined_batches, faults, cut_off, suspects = examine(
            data,
            selects=lambda count: is_selected or sampler.selects(produced, part.topic_partition[0], count),
            produced=produced,
            most_suspects=MAX_SUSPECTS - self.suspects,
            batches=batches,
        )
        self.suspects += suspects
        part = part._replace(batches=examined_batches, cut_off=cut_off)
        for fault in faults:
            self.faults.setdefault(fault.kind, []).append((part, fault))
        return part

    def _is_ordinary(self, part: PartitionData, event: FrameEvent) -> bool:
        """Whether no rule applies to this record data of a producer, apart from faults."""
        assert self.message is not None
        [first, *others] = part.batches
        is_old_zstd = first.attributes & _ZSTD and self.message.version < _ZSTD_SINCE
        return not (others or first.base_offset or is_old_zstd) and is_recent(first, event)


def is_recent(batch: BatchSpan, event: FrameEvent) -> bool:
    """Whether the max timestamp of a batch is -1, or between ten years ago and a day ahead."""
    return batch.max_timestamp == _NO_TIMESTAMP or -_TEN_YEARS < batch.max_timestamp - event.at // 1_000_000 < _DAY


def record_data(event: FrameEvent, connection: ConnectionState) -> RecordData:
    """Return the record data of a Produce request or a Fetch or ShareFetch response; empty for other messages."""
    data = connection.run.state(RecordData)
    return data if data.message is event.message else _NO_DATA


_NO_DATA = RecordData()


def faults_of_kind(
    event: FrameEvent, connection: ConnectionState, kind: FaultKind
) -> list[tuple[PartitionData, Fault]]:
    """Return the faults of one kind in a message."""
    return record_data(event, connection).faults.get(kind, _NO_FAULTS)


def sent_records(produce: RequestReceived | None) -> dict[partitions.TopicPartition, PartitionRecords]:
    """Return the partitions with record data in a well-formed Produce request."""
    if produce is None or not produce.message.well_formed:
        return {}
    return {
        (topic.key, records.partition or 0): records
        for topic in topic_records(produce.message)
        for records in topic.partitions
        if records.data
    }


def fault_problem(
    event: FrameEvent,
    connection: ConnectionState,
    part: PartitionData,
    fault: Fault,
    hint: str,
    severity: Severity | None = None,
) -> Problem:
    """Return the problem that a rule reports for a fault."""
    return Problem(
        f"{label(part.topic_partition, connection)}, batch {fault.path[0]}: {fault.message}",
        **problem_location(event, part, fault.start, fault.end, *fault.path),
        hint=hint,
        blame="client" if event.message is not None and event.message.is_request else "broker",
        severity=severity if fault.proven else severity_in_traffic(connection, severity),
        expected=fault.expected,
        got=fault.got,
        cause=part.topic_partition[0],
    )


def problem_location(event: FrameEvent, part: PartitionData, start: int, end: int, *path: str) -> ProblemLocation:
    """Return the path and span in the frame of bytes that are counted from the start of a partition's records."""
    assert event.message is not None
    field_end = locate(event.message, *part.path, "records")["end"]
    records_start = field_end - len(part.row["records"])
    return ProblemLocation(
        path=render([*map(str, part.path), "records", *path]), start=records_start + start, end=records_start + end
    )


def severity_in_traffic(connection: ConnectionState, severity: Severity | None = None) -> Severity | None:
    """Return the severity for a frame of a connection, or INFO for a lone frame: its records may come from a log."""
    return severity if connection.server else Severity.INFO
