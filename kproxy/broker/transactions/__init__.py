"""Producers and their transactions: ids and epochs, who is fenced, and what is committed or aborted together."""

from kproxy.broker.transactions.coordinator import Transactions
from kproxy.broker.transactions.transaction import BUMPING, NOBODY, Producer, State, Transaction

__all__ = ["BUMPING", "NOBODY", "Producer", "State", "Transaction", "Transactions"]
