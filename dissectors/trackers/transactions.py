"""Transactions: who has which transactional id, and which partitions and groups its open transaction has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dissectors import schemas
from dissectors.bounded import BoundedDict
from dissectors.connections.events import ConnectionEnded, RequestReceived, ResponseReceived
from dissectors.limits import Limit
from dissectors.messages.message import Message
from dissectors.messages.summary import errors, transactional_id
from dissectors.messages.topic_records import topic_records
from dissectors.trackers.partitions import TopicPartition
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import LONGEST_NAME, client_key

_MOST_PRODUCERS = 10_000
_MOST_PARTITIONS = 1_000
_MOST_CONNECTIONS = 100
_MS = 1_000_000

#: Transactions are checked at this share of their timeout: a deadline by this name.
OPEN_TOO_LONG: Final = "transaction open"
SHARE: Final = Limit("share", 75, "%", "a transaction has been open for this share of transaction.timeout.ms")

#: After an error that waiting does not end, a transaction is checked once more: a deadline by this name.
NOT_ENDED: Final = "transaction not ended"
_ENDS_WITHIN = 20_000 * _MS

#: The APIs by which a client coordinates its transactions; records are observed by `Producers`.
APIS: Final = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")


class FirstRefusal(NamedTuple):
    """An error that a producer got from an API."""

    api: str
    code: int
    at: int


@dataclass(slots=True, eq=False)
class TransactionalProducer:
    """A producer with a transactional id, as its latest InitProducerId made it.

    `client` is its name and address, `key` its host and client id. `begun_at` is None while no transaction is open.
    `timeout_ms` is 0 and `initialized_at` None if InitProducerId was not observed. `aborts` counts those in a row.
    `gone_at`: when the last of its connections ended.
    `refused`: the first error since then that only an abort or InitProducerId ends.
    """

    name: str
    client: str = ""
    key: tuple[str, str | None] = ("", None)
    producer_id: int = -1
    epoch: int = -1
    timeout_ms: int = 0
    initialized_at: int | None = None
    begun_at: int | None = None
    last_at: int = 0
    gone_at: int | None = None
    refused: FirstRefusal | None = None
    aborts: int = 0
    aborts_since: int = 0
    partitions: BoundedDict[TopicPartition, int] = field(default_factory=lambda: BoundedDict(_MOST_PARTITIONS))
    groups: BoundedDict[str, int] = field(default_factory=lambda: BoundedDict(_MOST_PARTITIONS))
    connections: BoundedDict[str, int] = field(default_factory=lambda: BoundedDict(_MOST_CONNECTIONS))

    def used(self, at: int, connection: ConnectionState) -> None:
        """Note that the producer has sent something."""
        self.last_at, self.gone_at = at, None
        self.connections[connection.connection_id] = at
        self.client, self.key = named_client(connection), client_key(connection)

    def ended(self) -> None:
        """Note that no transaction is open."""
        self.begun_at = self.refused = None
        self.partitions.clear()
        self.groups.clear()

    @property
    def expires_at(self) -> int | None:
        """When the coordinator aborts the open transaction; None if that is unknown."""
        return None if self.begun_at is None or not self.timeout_ms else self.begun_at + self.timeout_ms * _MS


class OpenTransactions:
    """The transactional producers of a run, by transactional id. The tracker `Producers` passes events.

    A transaction is open from the first partition or group that the coordinator adds, or from the first batch of an
    epoch (KIP-890, version 2, where brokers add partitions themselves), until EndTxn or InitProducerId succeeds.
    """

    def __init__(self) -> None:
        self.producers: BoundedDict[str, TransactionalProducer] = BoundedDict(_MOST_PRODUCERS)

    def holders(self, place: TopicPartition, connection: ConnectionState) -> list[TransactionalProducer]:
        """The producers with an open transaction that has a partition, the oldest transaction first."""
        wanted = _named(place, connection)
        open_ones = [
            each for each in self.producers.values() if each.begun_at is not None and wanted in each.partitions
        ]
        return sorted(open_ones, key=lambda each: each.begun_at or 0)

    def wrote(self, name: str, batch: tuple[int, int], place: TopicPartition, at: int, by: ConnectionState) -> None:
        """Observe the first transactional batch (producer id, epoch) of an epoch for a partition."""
        producer = self._producer(name)
        if producer.producer_id != batch[0] or producer.epoch < batch[1]:
            producer.producer_id, producer.epoch = batch
        elif producer.epoch > batch[1]:
            return  # of a fenced producer
        producer.used(at, by)
        self._begin(producer, at, by)
        producer.partitions[_named(place, by)] = at

    def lost(self, connection: ConnectionState) -> None:
        """Bytes were lost: what ended a transaction may have been among them."""
        for each in self.producers.values():
            if connection.connection_id in each.connections:
                each.ended()

    def closed(self, event: ConnectionEnded, connection: ConnectionState) -> None:
        """Note producers whose last connection has ended."""
        for each in self.producers.values():
            if each.connections.pop(connection.connection_id, None) is not None and not each.connections:
                each.gone_at = event.at

    def observe(self, event: RequestReceived | ResponseReceived, connection: ConnectionState) -> None:
        """Observe a well-formed frame of `APIS`."""
        request = event if isinstance(event, RequestReceived) else event.request
        name = transactional_id(request.message) if request is not None else None
        if request is None or not name:
            return
        if isinstance(event, RequestReceived):
            known = self.producers.get(name)
            if known is not None and producer_of(request.message) == (known.producer_id, known.epoch):
                known.used(event.at, connection)
        elif event.message is not None and (found := errors(event.message)):
            self.refuse(name, request.message, found[0].code, event.at, connection)
        elif event.message is not None:
            self._succeeded(
                event.message.api or "", name, (request.message.body, event.message.body), event, connection
            )

    def refuse(self, name: str, request: Message, code: int, at: int, by: ConnectionState) -> None:
        """Note an error that a producer got. The next request cannot succeed if it may not be repeated."""
        producer, error = self.producers.get(name), schemas.error(code)
        if producer is None or producer.begun_at is None or producer.refused is not None:
            return
        if error is None or error.retriable or producer_of(request) != (producer.producer_id, producer.epoch):
            return
        producer.refused = FirstRefusal(request.api or "", code, at)
        by.expect(NOT_ENDED, name, by=at + _ENDS_WITHIN, about=(producer, producer.refused))

    def _succeeded(
        self,
        api: str,
        name: str,
        bodies: tuple[Mapping[str, Any], Mapping[str, Any]],
        event: ResponseReceived,
        connection: ConnectionState,
    ) -> None:
        asked, body = bodies
        producer = self._producer(name)
        producer.used(event.at, connection)
        if api == "InitProducerId":
            producer.ended()
            producer.connections.clear()
            producer.used(event.at, connection)
            producer.producer_id, producer.epoch = body.get("producer_id", -1), body.get("producer_epoch", -1)
            producer.timeout_ms, producer.initialized_at = asked.get("transaction_timeout_ms", 0), event.at
        elif api == "EndTxn":
            producer.ended()
            if producer.aborts == 0:
                producer.aborts_since = event.at
            producer.aborts = 0 if asked.get("committed") else producer.aborts + 1
            if body.get("producer_epoch", -1) >= 0:  # version 5: each transaction has an epoch (KIP-890)
                producer.producer_id, producer.epoch = body["producer_id"], body["producer_epoch"]
        else:
            self._begin(producer, event.at, connection)
            for place in _added(asked):
                producer.partitions[_named(place, connection)] = event.at
            if group := asked.get("group_id"):
                producer.groups[group] = event.at

    def _producer(self, name: str) -> TransactionalProducer:
        return self.producers.touch(name, lambda: TransactionalProducer(name))

    def _begin(self, producer: TransactionalProducer, at: int, connection: ConnectionState) -> None:
        if producer.begun_at is not None:
            return
        producer.begun_at = at
        if producer.timeout_ms:
            by = at + int(producer.timeout_ms * _MS * connection.run.limit(SHARE) / 100)
            connection.expect(OPEN_TOO_LONG, producer.name, by=by, about=(producer, at))


def _named(place: TopicPartition, connection: ConnectionState) -> TopicPartition:
    """A partition by its topic's name if known: Produce has names or ids, depending on its version."""
    return connection.run.topic_names.get(place[0], place[0]), place[1]


def _added(asked: Mapping[str, Any]) -> Iterator[TopicPartition]:
    """The partitions in an AddPartitionsToTxn request of a client."""
    for topic in asked.get("v3_and_below_topics") or ():
        for partition in topic.get("partitions") or ():
            yield topic.get("name") or "", partition


def named_client(connection: ConnectionState) -> str:
    """A client by its id and address: ``client 'payments' at 10.0.0.1:5000``."""
    return f"client {(connection.client_id or '')[:LONGEST_NAME]!r} at {connection.client}"


def producer_of(request: Message) -> tuple[int, int] | None:
    """The producer id and epoch of a request; None if it has none."""
    body = request.body
    if request.api == "Produce":
        rows = (each for topic in topic_records(request) for each in topic.partitions)
        batch = next((each.batch for each in rows if each.batch is not None), None)
        return None if batch is None else (batch.producer_id, batch.producer_epoch)
    producer_id = body.get("producer_id", body.get("v3_and_below_producer_id", -1))
    epoch = body.get("producer_epoch", body.get("v3_and_below_producer_epoch", -1))
    return None if producer_id < 0 or epoch < 0 else (producer_id, epoch)
