"""Transaction verification in Produce and TxnOffsetCommit (KIP-890).

From Produce v12 and TxnOffsetCommit v5 on, writing adds the partition or group to the transaction. Older clients must
first add it with AddPartitionsToTxn or AddOffsetsToTxn, and are rejected if they have not.

Source: AddPartitionsToTxnManager, ReplicaManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.groups.offsets import TopicPartition
from kproxy.broker.transactions.coordinator import Transactions
from kproxy.broker.transactions.transaction import EPOCH_BUMP_VERSION, Producer

if TYPE_CHECKING:
    from kproxy.broker.request import Request


def verify_produce(
    request: Request, transactional_id: str, producer_id: int, producer_epoch: int, topic_partition: TopicPartition
) -> None:
    """Raise `ApiError` unless a transactional batch may be appended; from v12 on, add the partition.

    Args:
        request: A Produce request.
        transactional_id: The transactional id in the request.
        producer_id: The producer id in the batch.
        producer_epoch: The producer epoch in the batch.
        topic_partition: The partition.
    """
    adds_partition = request.version >= 12
    try:
        _verify(
            request,
            transactional_id,
            Producer(producer_id, producer_epoch),
            topic_partition,
            adds_participant=adds_partition,
        )
    except ApiError as api_error:
        if api_error.error is Error.CONCURRENT_TRANSACTIONS and not adds_partition:
            message = "Unable to verify the partition has been added to the transaction. Underlying error: "
            raise ApiError(Error.NOT_ENOUGH_REPLICAS, message + api_error.error.name) from None
        if api_error.error is Error.TRANSACTION_ABORTABLE and request.version < 11:
            raise ApiError(Error.INVALID_TXN_STATE, "Partition was not added to the transaction") from None
        raise


def verify_commit(
    request: Request, transactional_id: str, producer_id: int, producer_epoch: int, group_id: str
) -> None:
    """Raise `ApiError` unless a group's offsets may be staged; from TxnOffsetCommit v5 on, add the group."""
    try:
        _verify(
            request,
            transactional_id,
            Producer(producer_id, producer_epoch),
            group=group_id,
            adds_participant=request.version >= 5,
        )
    except ApiError as api_error:
        if api_error.error is Error.TRANSACTION_ABORTABLE and request.version < 4:
            raise ApiError(Error.INVALID_TXN_STATE) from None
        raise


def _verify(
    request: Request,
    transactional_id: str,
    producer: Producer,
    topic_partition: TopicPartition | None = None,
    *,
    group: str | None = None,
    adds_participant: bool,
) -> None:
    transactions = request.cluster.part(Transactions)
    try:
        if not adds_participant:
            transactions.verify(transactional_id, producer, topic_partition=topic_partition, group=group)
        else:
            topic_partitions = () if topic_partition is None else (topic_partition,)
            groups = () if group is None else (group,)
            transactions.add(transactional_id, producer, topic_partitions, groups, version=EPOCH_BUMP_VERSION)
    except ApiError as api_error:
        if api_error.error is Error.PRODUCER_FENCED:  # the error that clients expect here
            raise ApiError(Error.INVALID_PRODUCER_EPOCH) from None
        raise
