"""Producers and their transactions: ids and epochs, fencing, commit and abort."""

from kproxy.broker.transactions.coordinator import Transactions
from kproxy.broker.transactions.transaction import BUMPING, NOBODY, Producer, Transaction, TransactionState

__all__ = ["BUMPING", "NOBODY", "Producer", "Transaction", "TransactionState", "Transactions"]
