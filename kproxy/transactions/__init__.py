"""Transactions from trace lines, as rows and as a timeline. Rules follow them in `dissectors.trackers.transactions`."""

from kproxy.transactions.overview import TransactionsOverview
from kproxy.transactions.rows import HeldRow, Outcome, TransactionRow, TransactionSpan

__all__ = ["HeldRow", "Outcome", "TransactionRow", "TransactionSpan", "TransactionsOverview"]
