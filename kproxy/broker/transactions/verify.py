"""Transaction verification in Produce and TxnOffsetCommit (KIP-890).

From Produce v12 and TxnOffsetCommit v5 on, writing adds the partition or group to the transaction; older clients add it
with AddPartitionsToTxn or AddOffsetsToTxn first, and are rejected if they did not.

Source: AddPartitionsToTxnManager, ReplicaManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproxy.broker.errors import Error, Refused
from kproxy.broker.groups.offsets import Place
from kproxy.broker.transactions.coordinator import Transactions
from kproxy.broker.transactions.transaction import BUMPING, Producer

if TYPE_CHECKING:
    from kproxy.broker.request import Request


def verify_produce(
    request: Request, transactional_id: str, producer_id: int, producer_epoch: int, place: Place
) -> None:
    """Raise `ApiError` unless a transactional batch may be appended to a partition; from v12 on this adds it.

    Args:
        request: A Produce request.
        transactional_id: From the request.
        producer_id: From the batch.
        producer_epoch: From the batch.
        topic_partition: The partition.
    """
    adds = request.version >= 12
    try:
        _verify(request, transactional_id, Producer(producer_id, producer_epoch), place, adds=adds)
    except Refused as refused:
        if refused.error is Error.CONCURRENT_TRANSACTIONS and not adds:
            message = "Unable to verify the partition has been added to the transaction. Underlying error: "
            raise Refused(Error.NOT_ENOUGH_REPLICAS, message + refused.error.name) from None
        if refused.error is Error.TRANSACTION_ABORTABLE and request.version < 11:
            raise Refused(Error.INVALID_TXN_STATE, "Partition was not added to the transaction") from None
        raise


def verify_commit(request: Request, transactional_id: str, producer_id: int, producer_epoch: int, group: str) -> None:
    """Raise `ApiError` unless a group's offsets may be staged; from TxnOffsetCommit v5 on this adds the group."""
    try:
        _verify(
            request, transactional_id, Producer(producer_id, producer_epoch), group=group, adds=request.version >= 5
        )
    except Refused as refused:
        if refused.error is Error.TRANSACTION_ABORTABLE and request.version < 4:
            raise Refused(Error.INVALID_TXN_STATE) from None
        raise


def _verify(
    request: Request,
    transactional_id: str,
    producer: Producer,
    place: Place | None = None,
    *,
    group: str | None = None,
    adds: bool,
) -> None:
    transactions = request.cluster.part(Transactions)
    try:
        if not adds:
            transactions.verify(transactional_id, producer, place=place, group=group)
        else:
            places = () if place is None else (place,)
            groups = () if group is None else (group,)
            transactions.add(transactional_id, producer, places, groups, version=BUMPING)
    except Refused as refused:
        if refused.error is Error.PRODUCER_FENCED:  # the error that clients expect here
            raise Refused(Error.INVALID_PRODUCER_EPOCH) from None
        raise
