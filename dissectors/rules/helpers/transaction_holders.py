"""Which transaction holds a partition, whose fault it is, and what to do."""

from __future__ import annotations

from typing import NamedTuple

from dissectors.findings import Severity
from dissectors.rules.helpers.transaction_texts import is_idle, producer_text, state_text
from dissectors.trackers.allowed_waits import duration
from dissectors.trackers.partitions import TopicPartition
from dissectors.trackers.recurrence import SECOND
from dissectors.trackers.stable_offsets import StableOffset, StableOffsets
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.transactions import OpenTransactions, OutsideBatch, TransactionalProducer

#: Coordinators look for transactions to abort every 10 s, and write a transaction's markers within moments.
_ENDED_WITHIN = 20 * SECOND
#: The default of the broker's transaction.max.timeout.ms: no transaction may be open for longer.
_MAX_TIMEOUT = 900 * SECOND


class Holder(NamedTuple):
    """What holds a partition: `text` continues a sentence, and `kind` identifies the holder for `once_per`."""

    text: str
    hint: str
    severity: Severity
    blame: str
    kind: str


def holder_of(
    topic_partition: TopicPartition,
    held_offset: int,
    since: int,
    at: int,
    connection: ConnectionState,
    *,
    consumer_waits: bool = False,
) -> Holder:
    """Return what holds a partition at its last stable offset, which has not moved since `since`.

    The producer of the batch at that offset holds the partition, if a consumer has got the batch; otherwise it is the
    producer whose transaction with the partition has been open longest. `consumer_waits` says whether a consumer waits.
    """
    transactions = connection.run.state(OpenTransactions)
    topic_partition = connection.run.topic_names.get(topic_partition[0], topic_partition[0]), topic_partition[1]
    batch: StableOffset | OutsideBatch | None = connection.run.state(StableOffsets).for_partition(
        topic_partition, connection
    )
    if batch is None or batch.offset != held_offset or batch.producer_id < 0:
        batch = transactions.outside_batch(topic_partition, connection)
    if batch is None or batch.offset != held_offset:
        open_producers = transactions.holders(topic_partition, connection)
        return (
            _open_holder(open_producers[0], at, connection)
            if open_producers
            else _unknown_holder("a transaction of a producer that was not observed here holds it")
        )
    producer = transactions.by_id(batch.producer_id)
    ids_text = f"(producer {batch.producer_id}, epoch {batch.producer_epoch})"
    if producer is None:
        return _unobserved_holder(ids_text, topic_partition, held_offset, at - since, consumer_waits=consumer_waits)
    is_open = producer.begun_at is not None and producer.epoch == batch.producer_epoch
    if is_open:
        return _open_holder(producer, at, connection)
    if producer.ended_at is not None and at - producer.ended_at >= _ENDED_WITHIN and producer.is_fully_observed:
        return _hanging_holder(producer, ids_text, topic_partition, held_offset, at)
    return _unknown_holder(f"a transaction of transactional id {producer.name!r} {ids_text} holds it")


def _abort_command(topic_partition: TopicPartition, held_offset: int) -> str:
    topic, partition = topic_partition
    return f"kafka-transactions.sh abort --topic {topic} --partition {partition} --start-offset {held_offset}"


def _open_holder(producer: TransactionalProducer, at: int, connection: ConnectionState) -> Holder:
    text = f"the transaction of {producer_text(producer)} holds it; it {state_text(producer, at, connection)}"
    expires_at = producer.expires_at
    if expires_at is not None and at >= expires_at + _ENDED_WITHIN:
        hint = (
            "the coordinator should have aborted it: check it with kafka-transactions.sh find-hanging, and end it with "
            "abort"
        )
        return Holder(text, hint, Severity.WARNING, "broker", f"{producer.name} overdue")
    if is_idle(producer, at, connection):
        hint = (
            "make the producer commit or abort; if it has gone, start it again with the same transactional.id, "
            "which aborts the transaction, or lower transaction.timeout.ms"
        )
        return Holder(text, hint, Severity.WARNING, "client", f"{producer.name} idle")
    hint = "commit more often: consumers that read committed records get them only then"
    return Holder(text, hint, Severity.INFO, "client", producer.name)


def _hanging_holder(
    producer: TransactionalProducer, ids_text: str, topic_partition: TopicPartition, held_offset: int, at: int
) -> Holder:
    ending = {True: "was committed", False: "was aborted", None: "ended with InitProducerId"}[producer.outcome]
    text = (
        f"a hanging transaction of transactional id {producer.name!r} {ids_text} holds it: its latest one {ending} "
        f"{duration(at - (producer.ended_at or at))} ago, but this partition has no marker of it"
    )
    return Holder(
        text,
        f"end it with {_abort_command(topic_partition, held_offset)}",
        Severity.WARNING,
        "broker",
        f"{ids_text} hanging",
    )


def _unobserved_holder(
    ids_text: str, topic_partition: TopicPartition, held_offset: int, unmoved_for: int, *, consumer_waits: bool
) -> Holder:
    text = f"a transaction {ids_text}, whose requests were not observed here, holds it"
    if unmoved_for < _MAX_TIMEOUT:
        hint = (
            "find its client with kafka-transactions.sh describe-producers; find-hanging shows whether its coordinator "
            f"does not know it, then {_abort_command(topic_partition, held_offset)} ends it"
        )
        return Holder(text, hint, Severity.WARNING if consumer_waits else Severity.INFO, "client", ids_text)
    hint = (
        "no transaction may be open for so long, unless transaction.max.timeout.ms was raised: "
        f"{_abort_command(topic_partition, held_offset)}"
    )
    return Holder(text, hint, Severity.WARNING, "broker", f"{ids_text} long")


def _unknown_holder(text: str) -> Holder:
    hint = (
        "find the producer with kafka-transactions.sh describe-producers, or find-hanging if its coordinator "
        "does not know the transaction; abort ends a hanging one"
    )
    return Holder(text, hint, Severity.WARNING, "client", text)
