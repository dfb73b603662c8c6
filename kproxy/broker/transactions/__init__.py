"""Producers and their transactions: ids and epochs, fencing, commit and abort."""

from kproxy.broker.transactions.coordinator import Transactions
from kproxy.broker.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER,
    Producer,
    Transaction,
    TransactionState,
)

__all__ = ["EPOCH_BUMP_VERSION", "NO_PRODUCER", "Producer", "Transaction", "TransactionState", "Transactions"]
