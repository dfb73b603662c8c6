"""Transactions: who uses each transactional id, and which partitions and groups its open transaction includes."""

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
from dissectors.messages.transaction_facts import only_verifies, producer_of
from dissectors.trackers.partitions import TopicPartition
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.versions import MAX_NAME_SHOWN, client_key

_MAX_PRODUCERS = 10_000
_MAX_PARTITIONS = 1_000
_MAX_CONNECTIONS = 100
_MS = 1_000_000

#: Transactions are checked at a share of their timeout, at a deadline with this name.
OPEN_DEADLINE: Final = "transaction open"
SHARE: Final = Limit("share", 75, "%", "a transaction has been open for this share of transaction.timeout.ms")

#: After an error that waiting does not resolve, a transaction is checked once more, at a deadline with this name.
NOT_ENDED_DEADLINE: Final = "transaction not ended"
_ENDS_WITHIN = 20_000 * _MS


class FirstRefusal(NamedTuple):
    """An error that a producer got from an API."""

    api: str
    code: int
    at: int


class OutsideBatch(NamedTuple):
    """A transactional batch that was accepted outside any transaction, and its offset."""

    producer_id: int
    producer_epoch: int
    offset: int


@dataclass(slots=True, eq=False)
class TransactionalProducer:
    """A producer with a transactional id, as set up by its latest InitProducerId.

    Attributes:
        client: Its name and address; `key` is its host and client id.
        timeout_ms: 0 if InitProducerId was not observed; `initialized_at` is then None.
        begun_at: When the open transaction began (ns); None while no transaction is open.
        gone_at: When the last of its connections ended (ns).
        refused: The first error in the open transaction that only an abort or InitProducerId resolves.
        aborts: The number of consecutive aborts, since `aborts_since` (ns).
        groups: The groups whose offsets the open transaction commits, and whether the commit was observed.
        version: The version of the transaction protocol (KIP-890): 2 if each transaction has an epoch, 0 if unknown.
        asked: True if EndTxn has requested a commit, False if it has requested an abort; None if neither.
        outcome: Whether the latest transaction that has ended, at `ended_at` (ns), was committed.
        is_fully_observed: Whether everything since `ended_at` was observed.
        has_progressed: Whether the open transaction changes one of the `offsets`.
        empty_commits: The number of consecutive commits of nothing, since `empty_since` (ns).
        offsets: The latest offsets that the producer has sent, by group and partition.
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
    partitions: BoundedDict[TopicPartition, int] = field(default_factory=lambda: BoundedDict(_MAX_PARTITIONS))
    groups: BoundedDict[str, bool] = field(default_factory=lambda: BoundedDict(_MAX_PARTITIONS))
    version: int = 0
    asked: bool | None = None
    outcome: bool | None = None
    ended_at: int | None = None
    is_fully_observed: bool = False
    has_progressed: bool = False
    empty_commits: int = 0
    empty_since: int = 0
    offsets: BoundedDict[tuple[str, TopicPartition], int] = field(default_factory=lambda: BoundedDict(_MAX_PARTITIONS))
    connections: BoundedDict[str, int] = field(default_factory=lambda: BoundedDict(_MAX_CONNECTIONS))

    def note_request(self, at: int, connection: ConnectionState) -> None:
        """Record that the producer has sent something."""
        self.last_at, self.gone_at = at, None
        self.connections[connection.connection_id] = at
        self.client, self.key = client_address_label(connection), client_key(connection)

    def end_transaction(self) -> None:
        """Record that no transaction is open."""
        self.begun_at = self.refused = self.asked = None
        self.has_progressed = False
        self.partitions.clear()
        self.groups.clear()

    @property
    def expires_at(self) -> int | None:
        """When the coordinator aborts the open transaction; None if that is unknown."""
        return None if self.begun_at is None or not self.timeout_ms else self.begun_at + self.timeout_ms * _MS


class OpenTransactions:
    """The transactional producers of a run, by transactional id. The tracker `Producers` passes events on.

    A transaction is open from the first partition or group that the coordinator adds, or from the first batch of an
    epoch (KIP-890, version 2, where brokers add partitions themselves), until EndTxn or InitProducerId succeeds.
    """

    def __init__(self) -> None:
        self.producers: BoundedDict[str, TransactionalProducer] = BoundedDict(_MAX_PRODUCERS)
        self._outside: BoundedDict[TopicPartition, OutsideBatch] = BoundedDict(_MAX_PRODUCERS)

    def holders(self, topic_partition: TopicPartition, connection: ConnectionState) -> list[TransactionalProducer]:
        """Return the producers whose open transaction includes a partition, oldest transaction first."""
        partition = _by_topic_name(topic_partition, connection)
        open_producers = [
            producer
            for producer in self.producers.values()
            if producer.begun_at is not None and partition in producer.partitions
        ]
        return sorted(open_producers, key=lambda producer: producer.begun_at or 0)

    def by_id(self, producer_id: int) -> TransactionalProducer | None:
        """Return the producer with a producer id; None if it is unknown."""
        return next((producer for producer in self.producers.values() if producer.producer_id == producer_id), None)

    def note_batch(
        self,
        name: str,
        id_and_epoch: tuple[int, int],
        topic_partition: TopicPartition,
        at: int,
        connection: ConnectionState,
    ) -> None:
        """Record the first transactional batch (producer id, epoch) of an epoch in a partition; see `is_outside`."""
        producer = self._find_or_add(name)
        if producer.producer_id != id_and_epoch[0] or producer.epoch < id_and_epoch[1]:
            producer.producer_id, producer.epoch = id_and_epoch
        elif producer.epoch > id_and_epoch[1]:
            return  # from a fenced producer
        producer.note_request(at, connection)
        self._begin_transaction(producer, at, connection)
        producer.partitions[_by_topic_name(topic_partition, connection)] = at

    def is_outside(self, name: str, topic_partition: TopicPartition, connection: ConnectionState) -> bool:
        """Whether a transactional batch is part of no transaction that the coordinator knows.

        With version 1, a producer must add the partition first. Without that, no EndTxn ends what it writes (KIP-890).
        """
        producer = self.producers.get(name)
        return (
            producer is not None
            and producer.version == 1
            and producer.is_fully_observed
            and _by_topic_name(topic_partition, connection) not in producer.partitions
        )

    def note_outside_batch(
        self, batch: OutsideBatch, topic_partition: TopicPartition, connection: ConnectionState
    ) -> None:
        """Record that a broker has accepted a batch that `is_outside`."""
        self._outside[_by_topic_name(topic_partition, connection)] = batch

    def outside_batch(self, topic_partition: TopicPartition, connection: ConnectionState) -> OutsideBatch | None:
        """Return the latest batch of a partition that was outside any transaction."""
        return self._outside.get(_by_topic_name(topic_partition, connection))

    def note_lost_bytes(self, connection: ConnectionState) -> None:
        """Drop a connection's open transactions: the lost bytes may have included the frame that ended them."""
        for producer in self.producers.values():
            if connection.connection_id in producer.connections:
                producer.end_transaction()
                producer.is_fully_observed = False

    def note_connection_ended(self, event: ConnectionEnded, connection: ConnectionState) -> None:
        """Record which producers have lost their last connection."""
        for producer in self.producers.values():
            if producer.connections.pop(connection.connection_id, None) is not None and not producer.connections:
                producer.gone_at = event.at

    def observe(self, event: RequestReceived | ResponseReceived, connection: ConnectionState) -> None:
        """Observe a well-formed frame of `APIS`."""
        request = event if isinstance(event, RequestReceived) else event.request
        name = transactional_id(request.message) if request is not None else None
        if request is None or not name:
            return
        if isinstance(event, RequestReceived):
            producer = self.producers.get(name)
            if producer is not None and producer_of(request.message) == (producer.producer_id, producer.epoch):
                producer.note_request(event.at, connection)
                if request.message.api == "EndTxn":
                    producer.asked = bool(request.message.body.get("committed"))
        elif event.message is not None and (error_fields := errors(event.message)):
            self.note_refusal(name, request.message, error_fields[0].code, event.at, connection)
            if request.message.api == "EndTxn" and (producer := self.producers.get(name)) is not None:
                producer.asked = None
        elif event.message is not None:
            self._observe_success(
                event.message.api or "", name, (request.message.body, event.message.body), event, connection
            )

    def note_refusal(self, name: str, request: Message, code: int, at: int, connection: ConnectionState) -> None:
        """Record an error that a producer got, unless it is retriable or unknown."""
        producer, error = self.producers.get(name), schemas.error(code)
        if producer is None or producer.begun_at is None or producer.refused is not None:
            return
        if error is None or error.retriable or producer_of(request) != (producer.producer_id, producer.epoch):
            return
        producer.refused = FirstRefusal(request.api or "", code, at)
        connection.set_deadline(NOT_ENDED_DEADLINE, name, by=at + _ENDS_WITHIN, about=(producer, producer.refused))

    def _observe_success(
        self,
        api: str,
        name: str,
        bodies: tuple[Mapping[str, Any], Mapping[str, Any]],
        event: ResponseReceived,
        connection: ConnectionState,
    ) -> None:
        request_body, body = bodies
        if only_verifies(request_body):
            return
        producer = self._find_or_add(name)
        producer.note_request(event.at, connection)
        if api == "InitProducerId":
            producer.end_transaction()
            producer.connections.clear()
            producer.note_request(event.at, connection)
            producer.producer_id, producer.epoch = body.get("producer_id", -1), body.get("producer_epoch", -1)
            producer.timeout_ms, producer.initialized_at = request_body.get("transaction_timeout_ms", 0), event.at
            producer.outcome, producer.ended_at, producer.is_fully_observed, producer.version = None, event.at, True, 0
        elif api == "EndTxn":
            _end_transaction(producer, committed=bool(request_body.get("committed")), body=body, at=event.at)
        else:
            self._begin_transaction(producer, event.at, connection)
            producer.version = producer.version or int(api in ("AddPartitionsToTxn", "AddOffsetsToTxn"))
            for topic_partition in _added_partitions(request_body):
                producer.partitions[_by_topic_name(topic_partition, connection)] = event.at
            if group := request_body.get("group_id"):
                producer.groups[group] = producer.groups.get(group, False) or api == "TxnOffsetCommit"
                _commit_offsets(producer, group, request_body, connection)

    def _find_or_add(self, name: str) -> TransactionalProducer:
        return self.producers.touch(name, lambda: TransactionalProducer(name))

    def _begin_transaction(self, producer: TransactionalProducer, at: int, connection: ConnectionState) -> None:
        if producer.begun_at is not None:
            return
        producer.begun_at = at
        if producer.timeout_ms:
            deadline = at + int(producer.timeout_ms * _MS * connection.run.limit(SHARE) / 100)
            connection.set_deadline(OPEN_DEADLINE, producer.name, by=deadline, about=(producer, at))


def _by_topic_name(topic_partition: TopicPartition, connection: ConnectionState) -> TopicPartition:
    """Return a partition with its topic's name if known: Produce has names or ids, depending on its version."""
    return connection.run.topic_names.get(topic_partition[0], topic_partition[0]), topic_partition[1]


def _end_transaction(producer: TransactionalProducer, *, committed: bool, body: Mapping[str, Any], at: int) -> None:
    """Record the end of a transaction."""
    new_epoch = body.get("producer_epoch", -1)
    if new_epoch >= 0:  # version 5: each transaction has an epoch (KIP-890)
        producer.producer_id, producer.epoch, producer.version = body["producer_id"], new_epoch, 2
    else:
        producer.version = 1
    # With version 2, partitions are known only from records, which may have gone to brokers that are not observed. The
    # same is true of TxnOffsetCommit.
    is_known = producer.version == 1 and producer.is_fully_observed and all(producer.groups.values())
    is_empty = is_known and not producer.partitions and not producer.has_progressed
    if producer.aborts == 0:
        producer.aborts_since = at
    if producer.empty_commits == 0:
        producer.empty_since = at
    producer.aborts = 0 if committed else producer.aborts + 1
    producer.empty_commits = producer.empty_commits + 1 if committed and is_empty else 0
    producer.end_transaction()
    producer.outcome, producer.ended_at, producer.is_fully_observed = committed, at, True


def _commit_offsets(
    producer: TransactionalProducer, group: str, request_body: Mapping[str, Any], connection: ConnectionState
) -> None:
    """Record the offsets in a TxnOffsetCommit request."""
    for topic in request_body.get("topics") or ():
        name = topic.get("name") or topic.get("topic_id") or ""
        for row in topic.get("partitions") or ():
            key = group, _by_topic_name((name, row.get("partition_index", 0)), connection)
            offset = row.get("committed_offset", -1)
            if producer.offsets.get(key) != offset:
                producer.offsets[key], producer.has_progressed = offset, True


def _added_partitions(request_body: Mapping[str, Any]) -> Iterator[TopicPartition]:
    """Yield the partitions in an AddPartitionsToTxn request from a client, or from a broker for it (KIP-890)."""
    verified_topics = [
        topics for transaction in request_body.get("transactions") or () for topics in transaction.get("topics") or ()
    ]
    for topic in request_body.get("v3_and_below_topics") or verified_topics:
        for partition in topic.get("partitions") or ():
            yield topic.get("name") or "", partition


def client_address_label(connection: ConnectionState) -> str:
    """Describe a client by its id and address: ``client 'payments' at 10.0.0.1:5000``."""
    return f"client {(connection.client_id or '')[:MAX_NAME_SHOWN]!r} at {connection.client}"
