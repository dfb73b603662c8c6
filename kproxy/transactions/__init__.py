"""Transactions from trace lines, as rows and as a timeline. Rules use `dissectors.trackers.transactions` instead."""

from kproxy.transactions.overview import TransactionsOverview
from kproxy.transactions.rows import HeldRow, TransactionOutcome, TransactionRow, TransactionSpan

__all__ = ["HeldRow", "TransactionOutcome", "TransactionRow", "TransactionSpan", "TransactionsOverview"]
