"""The transactions of a trace, as one history per transactional id."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dissectors.bounded import MAX_NAME_LENGTH, BoundedDict, EvictionCountingDict
from dissectors.error_counts import ErrorCounts
from dissectors.messages.transaction_facts import APIS, FIRST_ADD_PARTITIONS_VERSION_OF_BROKERS
from kproxy.trace.lines import (
    FRAME_LINES,
    CloseLine,
    GapLine,
    HeldEntry,
    Line,
    MarkerEntry,
    RequestLine,
    ResponseLine,
    TopicEntry,
)
from kproxy.transactions.rows import HeldRow, TransactionOutcome, TransactionRow, TransactionSpan, TransactionStatus

_MAX_TRANSACTIONS = 10_000
_MAX_PARTITIONS = 1_000
#: Maximum number of transactions per transactional id that are kept for the timeline.
MAX_SPANS = 500

_TopicPartition = tuple[str, int]


@dataclass(slots=True)
class _History:
    """The history of a transactional id."""

    name: str | None
    first_at: int
    row: int
    last_row: int = 0
    producer_id: int = -1
    epoch: int = -1
    client_id: str = ""
    client: str = ""
    timeout_ms: int = 0
    version: int = 0
    commit_requested: bool | None = None
    outcome: bool | None = None
    last_at: int = 0
    gone_at: int | None = None
    open: TransactionSpan | None = None
    commits: int = 0
    aborts: int = 0
    fenced: int = 0
    markers: int = 0
    longest: int = 0
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    spans: deque[TransactionSpan] = field(default_factory=lambda: deque(maxlen=MAX_SPANS))
    partitions: dict[_TopicPartition, None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)
    connections: set[str] = field(default_factory=set)

    @property
    def state(self) -> TransactionStatus:
        """The state of the transaction, as far as it was observed."""
        if self.commit_requested is not None:
            return TransactionStatus.PREPARE_COMMIT if self.commit_requested else TransactionStatus.PREPARE_ABORT
        if self.open is not None:
            return TransactionStatus.ONGOING
        if self.outcome is None:
            return TransactionStatus.EMPTY
        return TransactionStatus.COMPLETE_COMMIT if self.outcome else TransactionStatus.COMPLETE_ABORT

    def begin(self, line: RequestLine | ResponseLine, row: int, at: int) -> None:
        """Begin a transaction, unless one is open."""
        if self.open is None:
            self.partitions, self.groups, self.outcome = {}, {}, None
            self.open = TransactionSpan(
                at, None, TransactionOutcome.OPEN, self.producer_id, self.epoch, line.client, row, row
            )
            self.spans.append(self.open)

    def end(self, outcome: TransactionOutcome, row: int, at: int) -> None:
        """End the open transaction, if there is one."""
        self.commit_requested = None
        if self.open is None:
            return
        self.open.ended_at, self.open.outcome, self.open.end_row = at, outcome, row
        self.longest = max(self.longest, at - self.open.begun_at)
        self.commits += outcome is TransactionOutcome.COMMITTED
        self.aborts += outcome is TransactionOutcome.ABORTED
        self.fenced += outcome is TransactionOutcome.FENCED
        self.outcome = None if outcome is TransactionOutcome.UNKNOWN else outcome is TransactionOutcome.COMMITTED
        self.open = None

    def add(self, topics: Iterable[TopicEntry]) -> None:
        """Add partitions to the open transaction."""
        for topic in topics:
            for partition in topic.partitions:
                if len(self.partitions) < _MAX_PARTITIONS:
                    self.partitions[topic.topic or topic.topic_id or "", partition] = None


@dataclass(slots=True)
class _HeldPartition:
    """A partition that a transaction holds; `producer_id` is -1 until a reader gets the first batch it holds back."""

    offset: int
    since: int
    end: int
    producer_id: int = -1


class TransactionsOverview:
    """Collects transactions from the lines of a trace; `evicted` counts transactional ids that are no longer kept."""

    def __init__(self) -> None:
        self._histories: EvictionCountingDict[str, _History] = EvictionCountingDict(_MAX_TRANSACTIONS)
        self._histories_by_producer_id: BoundedDict[int, _History] = BoundedDict(_MAX_TRANSACTIONS)
        self._held: BoundedDict[_TopicPartition, _HeldPartition] = BoundedDict(_MAX_TRANSACTIONS)

    @property
    def evicted(self) -> int:
        """Number of transactional ids that are no longer kept."""
        return self._histories.evicted

    def observe(self, line: Line, row: int, at: int) -> None:
        """Apply the next line, given its row in the index and its time (ns)."""
        if isinstance(line, FRAME_LINES):
            if line.markers:
                self._apply_markers(line.markers, row, at)
            if isinstance(line, ResponseLine) and (line.held or self._held) and line.api == "Fetch":
                self._add_held(line.held, row, at)
                self._remove_released(line)
            if line.transactional_id is None:  # most frames
                return
            history = self._find_or_add_history(line.transactional_id, row, at)
            history.last_row = row
            if isinstance(line, RequestLine):
                self._apply_request(history, line, row, at)
            else:
                self._apply_response(history, line, row, at)
        elif isinstance(line, CloseLine):
            for history in self._histories_of(line.connection_id):
                history.connections.discard(line.connection_id)
                if not history.connections:
                    history.gone_at = at
        elif isinstance(line, GapLine):
            for history in self._histories_of(line.connection_id):
                history.end(TransactionOutcome.UNKNOWN, row, at)

    def _histories_of(self, connection_id: str) -> Iterator[_History]:
        """Return the histories in which a connection is involved, or all if the id is empty."""
        return (
            history for history in self._histories.values() if not connection_id or connection_id in history.connections
        )

    def _find_or_add_history(self, name: str, row: int, at: int) -> _History:
        name = name[:MAX_NAME_LENGTH]
        return self._histories.touch(name, lambda: _History(name, at, row))

    def _apply_request(self, history: _History, line: RequestLine, row: int, at: int) -> None:
        if line.api not in APIS and line.api != "Produce":
            return  # FindCoordinator, Describe
        ids = line.producer_id, line.producer_epoch
        if ids[0] is None or ids[1] is None:
            return
        if ids[0] == history.producer_id and ids[1] < history.epoch:
            return  # the producer is fenced
        if line.api != "AddPartitionsToTxn" or (line.api_version or 0) < FIRST_ADD_PARTITIONS_VERSION_OF_BROKERS:
            self._update_client(history, line, at)
        self._update_producer(history, ids[0], ids[1])
        if line.api == "EndTxn":
            history.commit_requested = line.committed
            history.version = 2 if (line.api_version or 0) >= 5 else 1
        elif line.api == "Produce":
            history.begin(line, row, at)
            history.add(line.topics)

    def _apply_response(self, history: _History, line: ResponseLine, row: int, at: int) -> None:
        if line.api not in APIS and line.api != "Produce":
            return
        if line.errors:
            history.errors.add(line.errors)
            if line.api == "EndTxn":
                history.commit_requested = None
            return
        if line.api == "InitProducerId":
            recovers = line.connection_id in history.connections
            history.end(TransactionOutcome.ABORTED if recovers else TransactionOutcome.FENCED, row, at)
            history.connections.clear()
            self._update_client(history, line, at)
            history.timeout_ms, history.outcome, history.version = line.transaction_timeout_ms or 0, None, 0
            self._update_producer(history, line.producer_id or 0, line.producer_epoch or 0)
        elif line.api == "EndTxn":
            history.end(TransactionOutcome.COMMITTED if line.committed else TransactionOutcome.ABORTED, row, at)
            history.outcome = line.committed
            self._update_producer(history, line.producer_id or 0, line.producer_epoch or 0)
        elif line.api != "Produce":
            history.begin(line, row, at)
            if line.api == "AddPartitionsToTxn":
                history.add(line.topics)
            elif line.group_id is not None and len(history.groups) < _MAX_PARTITIONS:
                history.groups[line.group_id] = None

    def _update_client(self, history: _History, line: RequestLine | ResponseLine, at: int) -> None:
        history.client_id, history.client = (line.client_id or "")[:MAX_NAME_LENGTH], line.client
        history.last_at, history.gone_at = at, None
        history.connections.add(line.connection_id)

    def _update_producer(self, history: _History, producer_id: int, epoch: int) -> None:
        history.producer_id, history.epoch = producer_id, epoch
        self._histories_by_producer_id[producer_id] = history

    def _apply_markers(self, markers: Iterable[MarkerEntry], row: int, at: int) -> None:
        """Apply markers. A higher epoch means that the coordinator has ended the transaction on its own."""
        for marker in markers:
            history = self._histories_by_producer_id.get(marker.producer_id)
            if history is not None:
                history.markers += 1
                span = history.open
                if (
                    span is not None
                    and history.commit_requested is None
                    and marker.producer_epoch > span.producer_epoch
                ):
                    history.end(
                        TransactionOutcome.COMMITTED if marker.committed else TransactionOutcome.FENCED, row, at
                    )

    def _remove_released(self, line: ResponseLine) -> None:
        """Forget the held partitions in a response that are no longer held."""
        if self._held and not line.errors:
            still_held = {(partition.topic, partition.partition) for partition in line.held}
            for topic in line.topics:
                for partition in topic.partitions:
                    topic_partition = topic.topic or topic.topic_id or "", partition
                    if topic_partition in self._held and topic_partition not in still_held:
                        del self._held[topic_partition]

    def _add_held(self, entries: Iterable[HeldEntry], row: int, at: int) -> None:
        """Remember the partitions that an open transaction holds."""
        for held_entry in entries:
            topic_partition = held_entry.topic, held_entry.partition
            held_partition = self._held.get(topic_partition)
            if held_partition is None or held_partition.offset < held_entry.last_stable_offset:
                held_partition = self._held[topic_partition] = _HeldPartition(
                    held_entry.last_stable_offset, at, held_entry.high_watermark
                )
            if held_partition.offset == held_entry.last_stable_offset:
                held_partition.end = max(held_partition.end, held_entry.high_watermark)
                if held_entry.producer_id is not None and held_partition.producer_id < 0:
                    held_partition.producer_id = held_entry.producer_id
                    self._add_unobserved(held_entry.producer_id, held_entry.producer_epoch or 0, row, at)

    def _add_unobserved(self, producer_id: int, epoch: int, row: int, at: int) -> None:
        """Add a history without a name for a producer whose requests were not observed."""
        if producer_id not in self._histories_by_producer_id:
            key = f"(producer {producer_id})"
            history = self._histories.touch(key, lambda: _History(None, at, row, row))
            self._update_producer(history, producer_id, epoch)
            history.last_at = at

    def rows(self, now: int) -> list[TransactionRow]:
        """Return the rows of all transactional ids at time `now` (ns), ordered by when they were first seen."""
        held_by_producer = self._held_by_producer()
        histories = sorted(self._histories.values(), key=lambda history: history.first_at)
        return [_row(history, held_by_producer.get(history.producer_id, ())) for history in histories]

    def spans(self, key: str) -> tuple[TransactionSpan, ...]:
        """Return the transactions of a row, the oldest first."""
        history = self._histories.get(key)
        return () if history is None else tuple(history.spans)

    def _held_by_producer(self) -> dict[int, list[HeldRow]]:
        rows_by_producer: dict[int, list[HeldRow]] = {}
        for (topic, partition), held_partition in self._held.items():
            holder = (
                held_partition.producer_id
                if held_partition.producer_id >= 0
                else self._oldest_producer_of((topic, partition))
            )
            if holder is not None:
                entry = HeldRow(
                    topic,
                    partition,
                    held_partition.offset,
                    held_partition.since,
                    held_partition.end - held_partition.offset,
                )
                rows_by_producer.setdefault(holder, []).append(entry)
        return rows_by_producer

    def _oldest_producer_of(self, topic_partition: _TopicPartition) -> int | None:
        """Return the producer whose transaction with this partition has been open for the longest time."""
        open_spans = [
            history.open
            for history in self._histories.values()
            if history.open is not None and topic_partition in history.partitions
        ]
        return min(open_spans, key=lambda span: span.begun_at).producer_id if open_spans else None


def _row(history: _History, held_rows: Iterable[HeldRow]) -> TransactionRow:
    return TransactionRow(
        transactional_id=history.name,
        producer_id=history.producer_id,
        producer_epoch=history.epoch,
        client_id=history.client_id,
        client=history.client,
        state=history.state,
        version=history.version,
        timeout_ms=history.timeout_ms,
        begun_at=None if history.open is None else history.open.begun_at,
        last_at=history.last_at,
        gone_at=history.gone_at,
        partitions=tuple(history.partitions),
        groups=tuple(history.groups),
        commits=history.commits,
        aborts=history.aborts,
        fenced=history.fenced,
        markers=history.markers,
        longest_ns=history.longest,
        errors=history.errors.row(),
        held=tuple(held_rows),
        first_at=history.first_at,
        row=history.row,
        last_row=history.last_row,
    )
