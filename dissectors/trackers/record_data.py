"""Record data: what the message at hand carries, examined once for all rules that ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import ProblemPlace, locate
from dissectors.messages.message import Message
from dissectors.records.batch import HEADER
from dissectors.records.checks import MOST_SUSPECTS, examine, sound_batch
from dissectors.records.compression import CODECS
from dissectors.records.faults import Fault, FaultKind
from dissectors.records.formats import CONTROL
from dissectors.records.record_checks import BatchSpan
from dissectors.trackers import partitions, tracker
from dissectors.trackers.partitions import spoken, topic_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags
from dissectors.wire.paths import render

#: Of each topic on each connection and in each direction the first batches are looked into, then one in so many.
FIRST_BATCHES = 8
THEN_ONE_IN = 256

#: Records of a batch that is looked into.
MOST_RECORDS = 10_000

#: Topics of a connection that are counted apart; those after them are counted together.
MOST_TOPICS = 256

_OLD = 0b011  # record formats 0 and 1
_FORMAT_2_SINCE, _ZSTD_SINCE = 4, 7  # versions of Fetch and Produce
_ZSTD = CODECS.index("zstd")
_NO_TIMESTAMP = -1
_DAY = 24 * 3600 * 1000  # ms
_YEARS = 10 * 365 * _DAY

_IRREGULAR = FrameFlags.IRREGULAR.value

FrameEvent = RequestReceived | ResponseReceived
Path = tuple[str | int, ...]

# Topics, partitions and a partition's number, as the two kinds of messages call them.
_PRODUCE = "topic_data", "partition_data", "index"
_FETCH = "responses", "partitions", "partition_index"


class PartitionData(NamedTuple):
    """One partition of a message with record data: the way to it in the body, its struct, and the batches in that."""

    place: partitions.Place
    path: Path
    row: dict[str, Any]
    batches: list[BatchSpan]
    cut_off: int


_NONE: list[tuple[PartitionData, Fault]] = []


@dataclass(slots=True)
class Seen:
    """How many batches of its topics a connection has shown, to choose those that are looked into."""

    batches: dict[tuple[object, str | None], int] = field(default_factory=dict)

    def chooses(self, purpose: object, topic: str, records: int = 1) -> bool:
        """Whether to look into the next batch of a topic, which has that many records, for a purpose."""
        key: tuple[object, str | None] = (purpose, topic)
        count = self.batches.get(key)
        if count is None:
            if len(self.batches) >= MOST_TOPICS:
                key = (purpose, None)
            count = self.batches.get(key, 0)
        self.batches[key] = count = count + 1
        return records <= MOST_RECORDS and (count <= FIRST_BATCHES or count % THEN_ONE_IN == 0)


@tracker(events=(RequestReceived, ResponseReceived), apis=("Produce", "Fetch", "ShareFetch"))
@dataclass(slots=True)
class RecordData:
    """What the message at hand carries, held until the next one with records.

    `failed` are the partitions with an error code, `null` those without one whose records are null; `attributes` are
    those of all batches together, `magics` has a bit for each record format. A message that any rule may have something
    to say of is marked as irregular: all others cost no more than this.
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
        if message is None or message.is_request != (message.api == "Produce"):
            return
        self.message, self.parts, self.failed, self.null, self.faults = message, [], [], [], {}
        self.attributes = self.magics = self.suspects = 0
        topics, rows, index = _PRODUCE if message.is_request else _FETCH
        for at, topic in enumerate(message.body.get(topics) or ()):
            for nth, row in enumerate(topic.get(rows) or ()):
                data = row.get("records", b"")
                if data:
                    place = topic_of(topic), row.get(index, 0)
                    self._examine(data, place, (topics, at, rows, nth), row, event, connection)
                elif data is None or row.get("error_code"):
                    part = PartitionData((topic_of(topic), row.get(index, 0)), (topics, at, rows, nth), row, [], 0)
                    (self.failed if row.get("error_code") else self.null).append(part)
        unusual = self.failed or self.null or self.magics & _OLD or self.attributes & CONTROL
        if self.faults or unusual or (self._is_odd_produce() if message.is_request else self._is_odd_fetch(event)):
            connection.flags |= _IRREGULAR

    def _is_odd_produce(self) -> bool:
        """Whether the acks of a Produce are none, or those of an idempotent producer not -1."""
        assert self.message is not None
        acks = self.message.body.get("acks", -1)
        return acks != -1 and (
            acks not in (0, 1) or any(batch.producer_id >= 0 for part in self.parts for batch in part.batches)
        )

    def _is_odd_fetch(self, event: FrameEvent) -> bool:
        """Whether a Fetch has batches for an old client, or is larger than its client allows."""
        message = event.message
        if message is None or message.api != "Fetch" or isinstance(event, RequestReceived):
            return False
        asked = event.request_body
        is_large = asked is not None and event.size > asked.get("max_bytes", event.size)
        return is_large or (message.version < _FORMAT_2_SINCE and bool(self.parts))

    def _examine(
        self,
        data: memoryview,
        place: partitions.Place,
        path: Path,
        row: dict[str, Any],
        event: FrameEvent,
        connection: ConnectionState,
    ) -> None:
        assert self.message is not None
        produced, topic = self.message.is_request, place[0]
        seen = connection.state(Seen)
        batch = sound_batch(data, 0, len(data), produced=produced)
        if batch is not None and not seen.chooses(produced, topic, batch.records_count):
            part = PartitionData(place, path, row, [batch], 0)
        else:
            part = self._look(data, place, path, row, seen, chosen=batch is not None)
        self.parts.append(part)
        for batch in part.batches:
            self.attributes |= batch.attributes
            self.magics |= 1 << batch.magic
        if not part.batches or (produced and not self._is_ordinary(part, event)):
            connection.flags |= _IRREGULAR

    def _look(
        self, data: memoryview, place: partitions.Place, path: Path, row: dict[str, Any], seen: Seen, *, chosen: bool
    ) -> PartitionData:
        """Examine record data; its only batch is `chosen` already, or each is for `seen` to choose."""
        assert self.message is not None
        produced = self.message.is_request
        batches, faults, cut_off, suspects = examine(
            data,
            wanted=lambda count: chosen or seen.chooses(produced, place[0], count),
            produced=produced,
            most_suspects=MOST_SUSPECTS - self.suspects,
        )
        self.suspects += suspects
        part = PartitionData(place, path, row, batches, cut_off)
        for fault in faults:
            self.faults.setdefault(fault.kind, []).append((part, fault))
        return part

    def _is_ordinary(self, part: PartitionData, event: FrameEvent) -> bool:
        """Whether no rule can have anything to say of what a producer sent, apart from faults."""
        assert self.message is not None
        [first, *more] = part.batches
        is_old_zstd = first.attributes & _ZSTD and self.message.version < _ZSTD_SINCE
        return not (more or first.base_offset or is_old_zstd) and is_recent(first, event)


def is_recent(batch: BatchSpan, event: FrameEvent) -> bool:
    """Whether the greatest timestamp of a batch is none, or one of the last years."""
    return batch.max_timestamp == _NO_TIMESTAMP or -_YEARS < batch.max_timestamp - event.at // 1_000_000 < _DAY


def record_data(event: FrameEvent, connection: ConnectionState) -> RecordData:
    """The record data of a Produce request or a Fetch or ShareFetch response; nothing of another message."""
    data = connection.run.state(RecordData)
    return data if data.message is event.message else _NO_DATA


_NO_DATA = RecordData()


def faults(event: FrameEvent, connection: ConnectionState, kind: FaultKind) -> list[tuple[PartitionData, Fault]]:
    """The faults of one kind in a message."""
    return record_data(event, connection).faults.get(kind, _NONE)


def sent(asked: Mapping[str, Any]) -> dict[partitions.Place, memoryview]:
    """The record data of a Produce request's partitions."""
    return {
        (topic_of(topic), row.get("index", 0)): row["records"]
        for topic in asked.get("topic_data") or ()
        for row in topic.get("partition_data") or ()
        if row.get("records")
    }


def first_batch(data: bytes | memoryview | None) -> BatchSpan | None:
    """The first batch of record data, None if it is of an older format or cut off."""
    if data is None or len(data) < HEADER.size:
        return None
    batch = BatchSpan(0, len(data), *HEADER.unpack_from(data))
    return batch if batch.magic == 2 else None


def fault_problem(
    event: FrameEvent,
    connection: ConnectionState,
    part: PartitionData,
    fault: Fault,
    hint: str,
    severity: Severity | None = None,
) -> Problem:
    """What a rule says of a fault."""
    return Problem(
        f"{spoken(part.place, connection)}, batch {fault.path[0]}: {fault.message}",
        **place_of(event, part, fault.start, fault.end, *fault.path),
        hint=hint,
        blame="client" if event.message is not None and event.message.is_request else "broker",
        severity=severity if fault.proven else unproven(connection, severity),
        expected=fault.expected,
        got=fault.got,
        cause=part.place[0],
    )


def place_of(event: FrameEvent, part: PartitionData, start: int, end: int, *path: str) -> ProblemPlace:
    """Path and span of bytes that are counted from the start of a partition's records."""
    assert event.message is not None
    field_end = locate(event.message, *part.path, "records")["end"]
    begin = field_end - len(part.row["records"])
    return ProblemPlace(path=render([*map(str, part.path), "records", *path]), start=begin + start, end=begin + end)


def unproven(connection: ConnectionState, severity: Severity | None = None) -> Severity | None:
    """The severity of what is wrong only where a client or broker says it: a lone frame may come out of a log."""
    return severity if connection.server else Severity.INFO
