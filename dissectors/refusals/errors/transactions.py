"""Errors about producers, idempotence and transactions."""

from __future__ import annotations

from typing import Final

from dissectors.refusals.judgement import Harm, Judgements, final_error, transient_error
from dissectors.schemas.codes import Error

_ONE_EACH = "give every running producer its own transactional.id; check whether two copies of the application run"

ERRORS: Final[Judgements] = {
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: transient_error(
        "the sequence of the batch is not the next one of its producer",
        "the client must send the batches of a partition in order and retry them in order, with at most 5 in flight",
        blame="client",
    ),
    Error.DUPLICATE_SEQUENCE_NUMBER: transient_error(
        "the broker has a batch with this sequence already",
        "the client must treat it as written, and not send it again",
        blame="client",
    ),
    Error.INVALID_PRODUCER_EPOCH: final_error(
        "another producer with the same transactional id has a newer epoch, or the transaction timed out",
        f"{_ONE_EACH}; otherwise end transactions within transaction.timeout.ms",
    ),
    Error.INVALID_TXN_STATE: final_error(
        "the transaction is not in a state that allows this request",
        "check the order of begin, send, sendOffsetsToTransaction, commit and abort, and that no thread runs beside it",
        harm=Harm.DATA,
    ),
    Error.INVALID_PRODUCER_ID_MAPPING: transient_error(
        "the producer id is not the one of the transactional id",
        "the client must request a producer id again (InitProducerId, KIP-360); ids expire after "
        "transactional.id.expiration.ms",
        blame="client", fields=("producer_id", "producer_epoch"),
    ),
    Error.INVALID_TRANSACTION_TIMEOUT: final_error(
        "the transaction timeout is not between 1 ms and the broker's transaction.max.timeout.ms",
        "lower transaction.timeout.ms of the producer, or raise transaction.max.timeout.ms of the broker",
        fields=("transaction_timeout_ms",), harm=Harm.DATA,
    ),
    Error.CONCURRENT_TRANSACTIONS: transient_error(
        "the coordinator is still completing the previous transaction of this id",
        "check whether the brokers that lead the partitions of the transaction are up (kafka-transactions "
        "find-hanging), and that no other producer uses this transactional.id; otherwise this passes in milliseconds",
    ),
    Error.TRANSACTION_COORDINATOR_FENCED: final_error(
        "the request comes from a transaction coordinator that another one has replaced",
        "check which broker leads the partition of __transaction_state",
        blame="broker",
    ),
    Error.UNKNOWN_PRODUCER_ID: transient_error(
        "the broker has no state of this producer id: its records were deleted by retention",
        "the client must raise its epoch with InitProducerId (KIP-360), or request a new id; raise retention of the "
        "topic",
        blame="client",
    ),
    Error.PRODUCER_FENCED: final_error(
        "a newer producer with the same transactional id has fenced this one", _ONE_EACH
    ),
    Error.UNSTABLE_OFFSET_COMMIT: transient_error(
        "offsets of an open transaction are not decided yet",
        "the producer that wrote the offsets must end its transaction; find one that hangs with kafka-transactions "
        "find-hanging",
        blame="client", grace_period=8.0,
    ),
    Error.TRANSACTIONAL_ID_NOT_FOUND: final_error(
        "the coordinator has no such transactional id", "check the id; ids expire after transactional.id.expiration.ms"
    ),
    Error.TRANSACTION_ABORTABLE: final_error(
        "the transaction cannot continue and must be aborted (KIP-890)",
        "abort the transaction and repeat it; check the order of AddPartitionsToTxn, Produce and EndTxn",
        harm=Harm.DATA,
    ),
}  # fmt: skip
