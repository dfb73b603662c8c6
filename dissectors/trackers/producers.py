"""Producers: the batches that were sent of late, by what their headers say, and what became of them."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dissectors import schemas
from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.partitions import Place, RefusedPartition, refusals, topic_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

_MOST_TRACKS = 10_000
_MOST_BATCHES = 5_000
_MOST_IN_FLIGHT = 1000
_MOST_IDS = 10_000

#: A broker remembers as many batches of a producer and partition.
_REMEMBERED = 5

#: Clients give up a batch sooner than this (delivery.timeout.ms is 2 minutes, librdkafka's 5).
_RETRIED_WITHIN = 600 * 1_000_000_000
_SEQUENCES = 1 << 31

_REFUSED, _RESENT = FrameFlags.REFUSED.value, FrameFlags.RESENT.value

_MAGIC = 16
_HEADER = 61
_FIELDS = struct.Struct(">8xi5xI14xqqhii").unpack_from


class SentBatch(NamedTuple):
    """What tells a batch apart without reading its records: `crc` is over all of them."""

    size: int
    crc: int
    max_timestamp: int
    producer_id: int
    epoch: int
    sequence: int
    records: int

    @property
    def next_sequence(self) -> int:
        """The sequence of the batch after it."""
        return (self.sequence + self.records) % _SEQUENCES


def first_batch(records: bytes | memoryview | None) -> SentBatch | None:
    """The first batch of a ``records`` field, None if it is of an older format or cut off."""
    if records is None or len(records) < _HEADER or records[_MAGIC] != 2:
        return None
    return SentBatch(*_FIELDS(records))


class SequenceGap(NamedTuple):
    """A batch whose sequence is not the next: `expected` would have been."""

    expected: int
    sequence: int


@dataclass(slots=True, eq=False)
class Attempt:
    """A Produce request: when, and what came back.

    `departs` says that the answer is not in the layout of its version: a client cannot read it, whatever it says.
    """

    at: int
    answered: bool = False
    departs: bool = False
    refused: dict[Place, int] = field(default_factory=dict)
    gaps: dict[Place, SequenceGap] = field(default_factory=dict)

    def outcome(self, place: Place) -> str:
        """What became of a partition's batch, as the end of a sentence."""
        if not self.answered:
            return "has no answer that was seen"
        if self.departs:
            return "was answered in a layout that it cannot read"
        code = self.refused.get(place)
        return f"was answered with {schemas.error_name(code) or code}" if code else "was answered without error"


class Resent(NamedTuple):
    """A batch that was sent before: the earlier one, how it went, and the way to the new one."""

    place: Place
    batch: SentBatch
    before: SentBatch
    attempt: Attempt
    where: tuple[str | int, ...]


@dataclass(slots=True)
class _Track:
    begun: int
    epoch: int
    next_sequence: int
    sent: deque[tuple[SentBatch, Attempt]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class _InFlight:
    """One connection's Produce requests that wait for their answer, by correlation id."""

    def __init__(self) -> None:
        self.attempts: BoundedDict[int, Attempt] = BoundedDict(_MOST_IN_FLIGHT)


@tracker(
    events=(RequestReceived, ResponseReceived), apis=("Produce", "InitProducerId"), broken=True, flags=FrameFlags.RESENT
)
class Producers:
    """The producers of a run, apart for each server.

    `resent` are the batches of the latest request that were sent before, `refused` the partitions with an error in the
    latest response, which answers `answered` (None if that was not seen).
    """

    def __init__(self) -> None:
        self.resent: list[Resent] = []
        self.refused: list[RefusedPartition] = []
        self.answered: Attempt | None = None
        self._tracks: BoundedDict[tuple[str, int, Place], _Track] = BoundedDict(_MOST_TRACKS)
        self._plain: BoundedDict[tuple[str, Place, SentBatch], Attempt] = BoundedDict(_MOST_BATCHES)
        self._given: BoundedDict[int, int] = BoundedDict(_MOST_IDS)

    def observe(self, event: RequestReceived | ResponseReceived, connection: ConnectionState) -> None:
        """Take in what is sent, or how it went."""
        self.resent, self.refused, self.answered = [], [], None
        message = event.message
        well = message is not None and message.well_formed and not event.damaged
        if isinstance(event, ResponseReceived):
            self._response(event, connection, well)
        elif well:
            self._request(event, connection)
            if self.resent:
                connection.flags |= _RESENT

    def _request(self, event: RequestReceived, connection: ConnectionState) -> None:
        message = event.message
        if message.api != "Produce":
            return
        attempt = Attempt(event.at)
        if event.expects_response:
            connection.state(_InFlight).attempts[message.correlation_id] = attempt
        for i, topic in enumerate(message.body.get("topic_data") or ()):
            name = topic_of(topic)
            for j, each in enumerate(topic.get("partition_data") or ()):
                batch = first_batch(each.get("records"))
                if batch is not None:
                    place = name, each.get("index", 0)
                    where = ("topic_data", i, "partition_data", j, "records")
                    self._send(connection.server, place, batch, attempt, where)

    def _send(
        self, server: str, place: Place, batch: SentBatch, attempt: Attempt, where: tuple[str | int, ...]
    ) -> None:
        if batch.producer_id < 0:
            before = self._plain.get((server, place, batch))
            if before is not None:
                self.resent.append(Resent(place, batch, batch, before, where))
            self._plain[server, place, batch] = attempt
            return
        key = server, batch.producer_id, place
        track = self._tracks.get(key)
        given = self._given.get(batch.producer_id, 0)  # a cluster made anew gives the same ids again
        if track is None or batch.epoch > track.epoch or track.begun < given:
            track = self._tracks[key] = _Track(attempt.at, batch.epoch, batch.sequence)
        elif batch.epoch < track.epoch:
            return
        for earlier, how in track.sent:
            is_recent = attempt.at - how.at < _RETRIED_WITHIN
            if earlier.sequence == batch.sequence and is_recent and not _is_void(how.refused.get(place)):
                self.resent.append(Resent(place, batch, earlier, how, where))
                track.sent.remove((earlier, how))
                break
        else:
            skipped = (batch.sequence - track.next_sequence) % _SEQUENCES
            if 0 < skipped < _SEQUENCES // 2:
                attempt.gaps[place] = SequenceGap(track.next_sequence, batch.sequence)
            track.next_sequence = batch.next_sequence
        track.sent.append((batch, attempt))

    def _response(self, event: ResponseReceived, connection: ConnectionState, well: bool) -> None:
        message = event.message
        if message is None or event.damaged or message.opaque:
            return
        if message.api != "Produce":
            if well and not message.body.get("error_code"):
                self._given[message.body.get("producer_id", -1)] = event.at
            return
        if well and connection.flags & _REFUSED:
            self.refused = refusals(message.body, "partition_responses", "index")
        self.answered = attempt = connection.state(_InFlight).attempts.pop(event.correlation_id, None)
        if attempt is not None:
            attempt.answered = True
            attempt.departs = not well or message.diagnosis is not None
            attempt.refused.update((place, code) for place, code, _ in self.refused)


def _is_void(code: int | None) -> bool:
    """Whether an error says that the batch is not taken and will not be: its sequence may be given to another."""
    error = schemas.error(code) if code else None
    return error is not None and not error.retriable


def batches_asked(asked: dict[str, Any]) -> dict[Place, SentBatch]:
    """The batches of a Produce request."""
    return {
        (topic_of(topic), each.get("index", 0)): batch
        for topic in asked.get("topic_data") or ()
        for each in topic.get("partition_data") or ()
        if (batch := first_batch(each.get("records"))) is not None
    }
