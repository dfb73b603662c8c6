"""ProducedRecords: recently produced records by the offsets that the broker gave them, and how they are fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from dissectors.bounded import SizedDict
from dissectors.connections.events import ConnectionEnded, RecordsDecoded, ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.partitions import topic_name_or_id
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.stored_batches import STABLE_FOR
from dissectors.trackers.triggers import FrameFlags, Trigger
from dissectors.values import Schema, SchemaKey, WrittenRecord
from dissectors.values.record_changes import RecordChange, record_changes

#: The most bytes of produced records to keep. The same limit applies to records in flight, and to those fetched early.
MAX_BYTES: Final = 8 << 20

_OVERHEAD: Final = 1000  # bytes of a record's objects in memory
_HEADER_OVERHEAD: Final = 150  # bytes of a header's objects
_FORMAT: Final = 2  # brokers convert older formats
_IRREGULAR: Final = FrameFlags.IRREGULAR.value

#: Server, topic, partition, offset.
RecordLocation = tuple[str, str, int, int]


class KeptRecord(NamedTuple):
    """A record and the schemas with which its key and value decode. `at` (ns) is the time of its frame."""

    record: WrittenRecord
    schemas: tuple[tuple[SchemaKey, Schema], ...]
    at: int
    connection_id: str
    correlation_id: int


class ChangedRecord(NamedTuple):
    """A change between a record's Produce and a Fetch of its offset."""

    change: RecordChange
    offset: int
    produced: KeptRecord
    fetched: KeptRecord


@tracker(
    events=(RecordsDecoded, ConnectionEnded),
    also=(
        Trigger((ResponseReceived,), apis=("DeleteTopics",)),
        Trigger((ResponseReceived,), apis=("Produce",), only=FrameFlags.SUBSCRIBED),  # once records were decoded
    ),
)
class ProducedRecords:
    """The most recently produced records of a run, separate for each server.

    Only records of format 2 whose offset the broker returned are known. A consumer may get a record before the producer
    gets the response: such records are compared when the response arrives.

    Attributes:
        changed: The changes that the latest Fetch or Produce response shows.
    """

    def __init__(self) -> None:
        self.changed: list[ChangedRecord] = []
        # Keyed by connection and correlation id. Stores the `id` of the message, because the message itself would keep
        # the frame in memory.
        self._in_flight: SizedDict[tuple[str, int], tuple[int, list[tuple[KeptRecord, int]]]] = SizedDict(MAX_BYTES)
        self._produced: SizedDict[RecordLocation, tuple[KeptRecord, int]] = SizedDict(
            MAX_BYTES
        )  # with the append time (ms)
        self._early: SizedDict[RecordLocation, KeptRecord] = SizedDict(MAX_BYTES)

    def observe(self, event: RecordsDecoded | ResponseReceived | ConnectionEnded, connection: ConnectionState) -> None:
        """Keep produced records, and compare fetched ones."""
        self.changed = []
        if isinstance(event, RecordsDecoded):
            self._observe_decoded(event, connection)
        elif isinstance(event, ConnectionEnded):
            for key in list(self._in_flight):
                if key[0] == connection.connection_id:
                    self._in_flight.pop(key)
        elif event.message is not None and event.message.api == "DeleteTopics":
            for records in (self._in_flight, self._produced, self._early):
                records.clear()  # a recreated topic has other records at the same offsets
        else:
            self._observe_response(event, connection)
        if not self._in_flight:
            self._early.clear()

    def _observe_decoded(self, event: RecordsDecoded, connection: ConnectionState) -> None:
        message = event.message
        if not message.is_request:
            if message.api in ("Fetch", "ShareFetch") and (self._produced or self._in_flight):
                for record in _kept_records(event, connection):
                    self._observe_fetched(record, connection)
        elif message.api == "Produce" and message.body.get("acks"):
            key = connection.connection_id, message.correlation_id or 0
            self._in_flight.pop(key)
            if records := [
                (record, _size(record)) for record in _kept_records(event, connection) if _has_offset(record.record)
            ]:
                connection.run.subscribe("ProducedRecords")
                self._in_flight.put(key, (id(message), records), sum(size for _, size in records))

    def _observe_fetched(self, fetched: KeptRecord, connection: ConnectionState) -> None:
        if (location := _record_location(fetched.record, fetched.record.offset, connection)) is None:
            return
        if (produced := self._produced.get(location)) is not None:
            self._compare(*produced, fetched)
        elif self._in_flight:
            self._early.put(location, fetched, _size(fetched))

    def _observe_response(self, event: ResponseReceived, connection: ConnectionState) -> None:
        in_flight = self._in_flight.pop((connection.connection_id, event.correlation_id))
        if (
            in_flight is None
            or event.message is None
            or event.request is None
            or id(event.request.message) != in_flight[0]
        ):
            return
        offsets = _offsets(event.message.body, connection)
        for kept_record, size in in_flight[1]:
            record = kept_record.record
            base_offset, append_time = offsets.get((record.topic or "", record.partition or 0), (-1, -1))
            location = _record_location(record, base_offset + record.offset, connection)
            if location is None or base_offset < 0:
                continue
            self._produced.put(location, (kept_record, append_time), size)
            if (fetched := self._early.pop(location)) is not None:
                self._compare(kept_record, append_time, fetched)
        if self.changed:
            connection.flags |= _IRREGULAR

    def _compare(self, produced: KeptRecord, append_time: int, fetched: KeptRecord) -> None:
        produced_record, fetched_record = produced.record, fetched.record
        if fetched.at < produced.at:
            return  # an earlier record had this offset
        expected_time = append_time if fetched_record.is_append_time else produced_record.timestamp
        if (produced_record.key, produced_record.value, produced_record.headers, expected_time) == (
            fetched_record.key,
            fetched_record.value,
            fetched_record.headers,
            fetched_record.timestamp,
        ):
            return
        self.changed += [
            ChangedRecord(change, fetched_record.offset, produced, fetched)
            for change in record_changes(
                produced_record,
                fetched_record,
                dict(fetched.schemas + produced.schemas),
                append_time=append_time,
                is_recent=abs(fetched.at - produced.at) < STABLE_FOR,
            )
        ]


def _record_location(record: WrittenRecord, offset: int, connection: ConnectionState) -> RecordLocation | None:
    if record.topic is None or record.partition is None or not connection.server:
        return None
    return connection.server, record.topic, record.partition, offset


def _kept_records(event: RecordsDecoded, connection: ConnectionState) -> list[KeptRecord]:
    """Return the records of a frame."""
    schemas: dict[int, list[tuple[SchemaKey, Schema]]] = {}
    records: list[WrittenRecord] = []
    for part in event.parts:
        if (record := part.record) is None:
            continue
        if (record_schemas := schemas.get(id(record))) is None:
            record_schemas = schemas[id(record)] = []
            records.append(record)
        if part.schema is not None and part.value.schema is not None:
            record_schemas.append((part.value.schema, part.schema))
    frame = event.at, connection.connection_id, event.message.correlation_id or 0
    return [KeptRecord(record, tuple(schemas[id(record)]), *frame) for record in records]


def _has_offset(record: WrittenRecord) -> bool:
    """Whether the response determines a record's offset: it must be in a first batch that needs no conversion."""
    return record.magic == _FORMAT and ".records[0]." in record.path


def _size(kept_record: KeptRecord) -> int:
    record = kept_record.record
    size = _OVERHEAD + len(record.topic or "") + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += _HEADER_OVERHEAD + len(name) + len(value or b"")
    return size


def _offsets(body: Mapping[str, Any], connection: ConnectionState) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the base offset and the append time (ms) of each partition without an error; -1 if there is none."""
    names = connection.run.topic_names
    return {
        (names.get(topic_name_or_id(topic), topic_name_or_id(topic)), row.get("index", 0)): (
            row.get("base_offset", -1),
            row.get("log_append_time_ms", -1),
        )
        for topic in body.get("responses") or ()
        for row in topic.get("partition_responses") or ()
        if not row.get("error_code")
    }
