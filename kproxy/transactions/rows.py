"""Transactional producers and their transactions as rows."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

_MS = 1_000_000

#: A last stable offset that has not moved for this long (ns) holds a partition: the default of rules T001 and T006.
LONG_HOLD_NS = 20_000 * _MS


class TransactionStatus(StrEnum):
    """The state of a transaction, with the names of Kafka's TransactionState."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class TransactionOutcome(StrEnum):
    """How a transaction ended, as far as it was observed."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    #: The coordinator has aborted it, with a higher epoch, after its timeout or for another producer.
    FENCED = "fenced"
    #: It may have ended in missing bytes or lines.
    UNKNOWN = "unknown"


class TransactionSpan(Struct):
    """A transaction from `row` to `end_row`. Times are in ns, `ended_at` is None while it is open."""

    begun_at: int
    ended_at: int | None
    outcome: TransactionOutcome
    producer_id: int
    producer_epoch: int
    client: str
    row: int
    end_row: int


class HeldRow(Struct, frozen=True):
    """A partition that a transaction holds: its last stable offset, since when (ns), and the records after it."""

    topic: str
    partition: int
    last_stable_offset: int
    since: int
    records: int


class TransactionRow(Struct, frozen=True):
    """A transactional id (None for a producer whose requests were not observed) and its transactions. Times are in ns.

    `begun_at` is None while no transaction is open; `partitions` and `groups` are those of the open or latest one.
    `version` is that of the transaction protocol (KIP-890), 0 if unknown; `timeout_ms` is 0 if unknown. `gone_at` is
    when the last connection of the producer ended. `held` are the partitions that a transaction of the producer holds.
    """

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    client_id: str
    client: str
    state: TransactionStatus
    version: int
    timeout_ms: int
    begun_at: int | None
    last_at: int
    gone_at: int | None
    partitions: tuple[tuple[str, int], ...]
    groups: tuple[str, ...]
    commits: int
    aborts: int
    fenced: int
    markers: int
    longest_ns: int
    errors: tuple[tuple[str, int], ...]
    held: tuple[HeldRow, ...]
    first_at: int
    row: int
    last_row: int

    @property
    def key(self) -> str:
        """The transactional id, or else a name for the producer."""
        return f"(producer {self.producer_id})" if self.transactional_id is None else self.transactional_id

    def is_hanging(self, now: int) -> bool:
        """Whether it holds a partition although it has no open transaction."""
        return self.begun_at is None and any(now - partition.since >= LONG_HOLD_NS for partition in self.held)

    def problem(self, now: int) -> str:
        """Return what is wrong with it, empty if nothing is wrong."""
        if self.is_hanging(now):
            reason = "its requests were not observed" if self.transactional_id is None else "no transaction is open"
            since = min(held_row.since for held_row in self.held)
            return f"holds {self._held_text()} for {_seconds_text(now - since)}, but {reason}"
        if self.begun_at is None:
            return ""
        text = ""
        if self.held and now - min(partition.since for partition in self.held) >= LONG_HOLD_NS:
            text = (
                f"holds {self._held_text()} for {_seconds_text(now - min(partition.since for partition in self.held))}"
            )
        if self.gone_at is not None:
            producer_text = f"its producer left {_seconds_text(now - self.gone_at)} ago"
            text = f"{text}; {producer_text}" if text else producer_text
        return text

    def _held_text(self) -> str:
        partitions = [f"{partition.topic}[{partition.partition}]" for partition in self.held]
        return ", ".join(partitions[:3]) + (f" and {len(partitions) - 3} more" if len(partitions) > 3 else "")


def _seconds_text(ns: int) -> str:
    return f"{max(ns, 0) / 1e9:.1f} s"
