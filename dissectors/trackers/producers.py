"""Producers: the recently sent batches, by their headers, and the outcome of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dissectors import schemas
from dissectors.bounded import BoundedDict
from dissectors.connections.events import BytesSkipped, ConnectionEnded, RequestReceived, ResponseReceived
from dissectors.messages.message import Message
from dissectors.messages.topic_records import topic_records
from dissectors.messages.transaction_facts import APIS
from dissectors.records.formats import TRANSACTIONAL
from dissectors.records.record_checks import SEQUENCES, BatchSpan
from dissectors.trackers import tracker
from dissectors.trackers.partitions import RefusedPartition, TopicPartition, refusals, topic_name_or_id
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import OpenTransactions, OutsideBatch
from dissectors.trackers.triggers import FrameFlags

_MAX_TRACKS = 10_000
_MAX_BATCHES = 5_000
_MAX_IDS = 10_000

#: The number of batches that a broker remembers per producer and partition.
_REMEMBERED_BATCHES = 5

#: The longest time (ns) for retries: clients give up earlier (delivery.timeout.ms is 2 minutes, librdkafka's 5).
_MAX_RETRY_TIME = 600 * 1_000_000_000

#: A response this long (ns) after the end of its transaction was hardly written before that end.
_ENDED_BEFORE = 100 * 1_000_000

_IRREGULAR, _REFUSED, _EMPTY = FrameFlags.IRREGULAR.value, FrameFlags.REFUSED.value, FrameFlags.EMPTY.value
_RESENT, _RAISED = FrameFlags.RESENT.value, FrameFlags.RAISED.value


class SequenceGap(NamedTuple):
    """A batch whose sequence number is not the `expected` one."""

    expected: int
    sequence: int


@dataclass(slots=True, eq=False)
class Attempt:
    """A Produce request of the connection `sender`, and its outcome.

    `is_misread`: the response is not in the layout of its version, so the client cannot decode it. `transactional` are
    its transactional batches, and `outside` those that are part of no known transaction, with producer id and epoch.
    """

    at: int
    sender: str = ""
    answered: bool = False
    is_misread: bool = False
    refused: dict[TopicPartition, int] = field(default_factory=dict)
    gaps: dict[TopicPartition, SequenceGap] = field(default_factory=dict)
    transactional: dict[TopicPartition, tuple[int, int]] | None = None
    outside: dict[TopicPartition, tuple[int, int]] | None = None

    def outcome(self, topic_partition: TopicPartition) -> str:
        """Return the outcome for a partition's batch, worded to end a sentence."""
        if not self.answered:
            return "has no observed response"
        if self.is_misread:
            return "was answered in a layout that it cannot read"
        code = self.refused.get(topic_partition)
        return f"was answered with {schemas.error_name(code) or code}" if code else "was answered without error"


class Resent(NamedTuple):
    """A batch that was sent before, with the earlier batch, its outcome, and the path of the new batch."""

    topic_partition: TopicPartition
    batch: BatchSpan
    before: BatchSpan
    attempt: Attempt
    where: tuple[str | int, ...]


@dataclass(slots=True)
class _ProducerTrack:
    started_at: int
    epoch: int
    next_sequence: int
    sent: deque[tuple[BatchSpan, Attempt]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_BATCHES))
    #: The base sequences of `sent`: nearly all batches are new, and these are compared faster.
    sequences: deque[int] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_BATCHES))

    def take_earlier(
        self, batch: BatchSpan, topic_partition: TopicPartition, at: int
    ) -> tuple[BatchSpan, Attempt] | None:
        """Remove and return the recent batch with the same sequence numbers that may be sent again, and its request."""
        if batch.base_sequence not in self.sequences:
            return None
        for index, (earlier_batch, attempt) in enumerate(self.sent):
            is_recent = at - attempt.at < _MAX_RETRY_TIME
            if (
                earlier_batch.base_sequence == batch.base_sequence
                and is_recent
                and not _is_final(attempt.refused.get(topic_partition))
            ):
                del self.sent[index], self.sequences[index]
                return earlier_batch, attempt
        return None


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped, ConnectionEnded),
    apis=("Produce", *APIS),
    broken=True,
    keeps=(OpenTransactions,),
    flags=FrameFlags.RESENT | FrameFlags.EMPTY | FrameFlags.RAISED,
)
class Producers:
    """The producers of a run, by server.

    `resent` are the batches of the latest request that were sent before, `refused` the partitions with an error in the
    latest response, and `answered` its request (None if it was not captured).
    """

    def __init__(self) -> None:
        self.resent: list[Resent] = []
        self.refused: list[RefusedPartition] = []
        self.answered: Attempt | None = None
        self._tracks: BoundedDict[tuple[str, int, TopicPartition], _ProducerTrack] = BoundedDict(_MAX_TRACKS)
        # Whether a batch in the latest request has a higher epoch than the previous batch, or negative numbers.
        self._has_raised_epoch = self._has_negative_numbers = False
        #: The transactional batches of the latest request, with their partitions: the first of their epoch, and others.
        self._begun: list[tuple[TopicPartition, BatchSpan]] = []
        self._continued: list[tuple[TopicPartition, BatchSpan]] = []
        self._batches_without_id: BoundedDict[tuple[str, TopicPartition, int, int], Attempt] = BoundedDict(_MAX_BATCHES)
        self._assigned_ids: BoundedDict[int, int] = BoundedDict(_MAX_IDS)

    def observe(
        self, event: RequestReceived | ResponseReceived | BytesSkipped | ConnectionEnded, connection: ConnectionState
    ) -> None:
        """Track sent batches and their outcomes, and transactions."""
        self.resent, self.refused, self.answered = [], [], None
        if isinstance(event, RequestReceived):
            if event.message.well_formed and not event.damaged:
                self._observe_request(event, connection)
                if self.resent:
                    connection.flags |= _RESENT
            else:
                connection.run.state(OpenTransactions).note_lost_bytes(connection)
        elif isinstance(event, ResponseReceived):
            message = event.message
            well_formed = message is not None and message.well_formed and not event.damaged
            if event.damaged or (message is not None and not well_formed):
                connection.run.state(OpenTransactions).note_lost_bytes(connection)
            self._observe_response(event, connection, well_formed)
        elif isinstance(event, ConnectionEnded):
            connection.run.state(OpenTransactions).note_connection_ended(event, connection)
        else:
            connection.run.state(OpenTransactions).note_lost_bytes(connection)

    def preceding_accepted_attempt(
        self, server: str, topic_partition: TopicPartition, batch: BatchSpan
    ) -> Attempt | None:
        """Return the accepted request whose batch immediately precedes this batch; None if it is unknown."""
        track = self._tracks.get((server, batch.producer_id, topic_partition))
        if track is None or track.epoch != batch.producer_epoch:
            return None
        for earlier_batch, attempt in reversed(track.sent):
            if (
                earlier_batch.next_sequence == batch.base_sequence
                and attempt.answered
                and topic_partition not in attempt.refused
            ):
                return attempt
        return None

    def count_accepted_since(self, server: str, topic_partition: TopicPartition, attempt: Attempt) -> int:
        """Return how many later batches without a producer id from the attempt's connection were accepted."""
        return sum(
            later_attempt.at > attempt.at
            and later_attempt.sender == attempt.sender
            and later_attempt.answered
            and not later_attempt.is_misread
            and topic_partition not in later_attempt.refused
            for (key_server, key_partition, _, _), later_attempt in self._batches_without_id.items()
            if key_partition == topic_partition and key_server == server
        )

    def _observe_request(self, event: RequestReceived, connection: ConnectionState) -> None:
        message = event.message
        if message.api != "Produce":
            connection.run.state(OpenTransactions).observe(event, connection)
            return
        event.attempt = attempt = Attempt(event.at, connection.connection_id)
        server = connection.server
        for i, topic in enumerate(topic_records(message)):
            name = topic.key
            for j, records in enumerate(topic.partitions):
                if records.batch is not None:
                    path = ("topic_data", i, "partition_data", j, "records")
                    self._track_batch(server, (name, records.partition or 0), records.batch, attempt, path)
        if self._has_negative_numbers:
            self._has_negative_numbers = False
            connection.flags |= _IRREGULAR
        if self._has_raised_epoch:
            self._has_raised_epoch = False
            connection.flags |= _RAISED
        if self._begun or self._continued:
            self._begin_transactions(event, attempt, connection)

    def last_sent(self, producer_id: int) -> int:
        """Return when a producer's latest batch was sent; 0 if none was observed."""
        times = (track.sent[-1][1].at for key, track in self._tracks.items() if key[1] == producer_id and track.sent)
        return max(times, default=0)

    def _begin_transactions(self, event: RequestReceived, attempt: Attempt, connection: ConnectionState) -> None:
        """Add the transactional batches of a request to the transactions of their producer."""
        transactions, name = connection.run.state(OpenTransactions), event.message.body.get("transactional_id")
        begun, continued, self._begun, self._continued = self._begun, self._continued, [], []
        if not name:
            return
        attempt.transactional = {
            topic_partition: (batch.producer_id, batch.producer_epoch)
            for topic_partition, batch in (*begun, *continued)
        }
        for topic_partition, batch in (*begun, *continued):
            if transactions.is_outside(name, topic_partition, connection):
                attempt.outside = attempt.outside or {}
                attempt.outside[topic_partition] = batch.producer_id, batch.producer_epoch
        for topic_partition, batch in begun:
            if attempt.outside is None or topic_partition not in attempt.outside:
                transactions.note_batch(
                    name, (batch.producer_id, batch.producer_epoch), topic_partition, event.at, connection
                )

    def _note_transaction_refusal(
        self, event: ResponseReceived, request: RequestReceived, connection: ConnectionState
    ) -> None:
        if name := request.message.body.get("transactional_id"):
            code = self.refused[0].code
            connection.run.state(OpenTransactions).note_refusal(name, request.message, code, event.at, connection)

    def _track_batch(
        self,
        server: str,
        topic_partition: TopicPartition,
        batch: BatchSpan,
        attempt: Attempt,
        path: tuple[str | int, ...],
    ) -> None:
        if batch.producer_id < 0:
            key = server, topic_partition, batch.crc, batch.batch_length
            earlier_request = self._batches_without_id.get(key)
            if earlier_request is not None:
                self.resent.append(Resent(topic_partition, batch, batch, earlier_request, path))
            self._batches_without_id[key] = attempt
            return
        producer_id = batch.producer_id
        if batch.base_sequence < 0 or batch.producer_epoch < 0:
            self._has_negative_numbers = True
            return
        track = self._tracks.get((server, producer_id, topic_partition))
        assigned_at = self._assigned_ids.get(producer_id, 0)  # a recreated cluster assigns the same ids again
        if track is None or batch.producer_epoch > track.epoch or track.started_at < assigned_at:
            self._has_raised_epoch = self._has_raised_epoch or track is not None
            if batch.attributes & TRANSACTIONAL:
                self._begun.append((topic_partition, batch))
            if track is not None and track.started_at >= assigned_at and batch.base_sequence > 0:
                attempt.gaps[topic_partition] = SequenceGap(0, batch.base_sequence)  # each epoch begins at 0
            track = self._tracks[server, producer_id, topic_partition] = _ProducerTrack(
                attempt.at, batch.producer_epoch, batch.base_sequence
            )
        elif batch.producer_epoch < track.epoch:
            return
        earlier = track.take_earlier(batch, topic_partition, attempt.at)
        if earlier is not None:
            self.resent.append(Resent(topic_partition, batch, *earlier, path))
        else:
            gap = (batch.base_sequence - track.next_sequence) % SEQUENCES
            if 0 < gap < SEQUENCES // 2:
                attempt.gaps[topic_partition] = SequenceGap(track.next_sequence, batch.base_sequence)
            track.next_sequence = batch.next_sequence
        if batch.attributes & TRANSACTIONAL and track.sent:
            self._continued.append((topic_partition, batch))
        track.sent.append((batch, attempt))
        track.sequences.append(batch.base_sequence)

    def _observe_response(self, event: ResponseReceived, connection: ConnectionState, well_formed: bool) -> None:
        message = event.message
        if message is None or event.damaged or message.opaque:
            return
        if message.api != "Produce":
            if well_formed:
                connection.run.state(OpenTransactions).observe(event, connection)
                if message.api == "InitProducerId" and not message.body.get("error_code"):
                    self._assigned_ids[message.body.get("producer_id", -1)] = event.at
            return
        if well_formed and not message.body.get("responses"):
            connection.flags |= _EMPTY
        if well_formed and connection.flags & _REFUSED:
            self.refused = refusals(message.body, "partition_responses", "index")
        if self.refused and event.request is not None:
            self._note_transaction_refusal(event, event.request, connection)
        self.answered = attempt = None if event.request is None else event.request.attempt
        if attempt is not None:
            attempt.answered = True
            attempt.is_misread = not well_formed or message.diagnosis is not None
            if self.refused:
                attempt.refused.update((topic_partition, code) for topic_partition, code, _ in self.refused)
            if attempt.transactional and well_formed and _has_ended_since(attempt, event, connection):
                _note_outside_batches(attempt.transactional, message, connection)
            elif attempt.outside and well_formed:
                _note_outside_batches(attempt.outside, message, connection)


def _has_ended_since(attempt: Attempt, event: ResponseReceived, connection: ConnectionState) -> bool:
    """Whether the transaction of a Produce request ended while the broker had not answered it."""
    assert event.request is not None
    producers = connection.run.state(OpenTransactions).producers
    producer = producers.get(event.request.message.body.get("transactional_id") or "")
    if producer is None or producer.begun_at is not None or producer.ended_at is None or producer.version != 1:
        return False
    return attempt.at < producer.ended_at <= event.at - _ENDED_BEFORE


def _note_outside_batches(
    outside: Mapping[TopicPartition, tuple[int, int]], message: Message, connection: ConnectionState
) -> None:
    """Record the offsets of batches that were accepted outside any transaction."""
    transactions = connection.run.state(OpenTransactions)
    for topic in message.body.get("responses") or ():
        for row in topic.get("partition_responses") or ():
            topic_partition = topic_name_or_id(topic), row.get("index", 0)
            if (ids := outside.get(topic_partition)) is not None and not row.get("error_code"):
                transactions.note_outside_batch(
                    OutsideBatch(*ids, row.get("base_offset", -1)), topic_partition, connection
                )


def _is_final(code: int | None) -> bool:
    """Whether an error rejects the batch for good, so that its sequence number may be reused."""
    error = schemas.error(code) if code else None
    return error is not None and not error.retriable
