"""What is counted of a topic: traffic both ways, partitions, clients, readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kproxy.browse.overviews.topic import PartitionSummary, ReaderLag, TopicClient, TopicSummary, Traffic
from kproxy.counting.bounded_dict import Recent
from kproxy.counting.counts import ErrorCounts, most_first
from kproxy.counting.names import ClientKey
from kproxy.counting.rates import RateClock, RateSeries
from kproxy.trace.lines import TopicEntry

#: What a line says of one topic counts up to this: a damaged one cannot fill a bucket.
MOST_COUNTED = (1 << 31) - 1

#: Codecs that are counted on their own.
MOST_CODECS = 16


@dataclass(slots=True)
class TopicTraffic:
    """Counts what is written, or what is read."""

    records_each: RateSeries
    requests: int = 0
    empty: int = 0
    records: int = 0
    bytes: int = 0
    batches: int = 0
    compression: dict[str, int] = field(default_factory=dict)

    def add(self, entry: TopicEntry, size: int, records: int) -> None:
        """Count what a frame brought: record data of `size` bytes."""
        self.requests += 1
        if not size:
            self.empty += 1
            return
        self.bytes += size
        self.records += records
        self.records_each.add(records)
        self.batches += entry.batches or 0
        compression = self.compression
        for codec in entry.compression:
            if codec in compression:
                compression[codec] += 1
            elif len(compression) < MOST_CODECS:
                compression[codec] = 1

    def merge(self, other: TopicTraffic) -> None:
        """Take over what another has counted."""
        self.records_each.merge(other.records_each)
        self.requests += other.requests
        self.empty += other.empty
        self.records += other.records
        self.bytes += other.bytes
        self.batches += other.batches
        for codec, frames in other.compression.items():
            if codec in self.compression or len(self.compression) < MOST_CODECS:
                self.compression[codec] = self.compression.get(codec, 0) + frames

    def row(self, clock: RateClock, now: int) -> Traffic:
        """What was counted, with rates up to `now` (ns)."""
        minute = clock.minute(self.records_each, now=now)
        return Traffic(
            requests=self.requests,
            empty=self.empty,
            records=self.records,
            bytes=self.bytes,
            batches=self.batches,
            compression=most_first(self.compression),
            records_rate=clock.rate(minute, now),
            minute=minute,
            all_time=clock.all_time(self.records_each),
        )


@dataclass(slots=True)
class PartitionState:
    """Counts of a partition; records are -1 while nothing is known of them."""

    bytes: list[int] = field(default_factory=lambda: [0, 0])
    records: list[int] = field(default_factory=lambda: [-1, -1])
    lag: int = -1
    last_at: int = 0
    last_row: int = 0


@dataclass(slots=True)
class ClientState:
    """Counts of a client: of what it writes, and of what it reads."""

    requests: list[int] = field(default_factory=lambda: [0, 0])
    records: list[int] = field(default_factory=lambda: [0, 0])
    bytes: list[int] = field(default_factory=lambda: [0, 0])
    last_at: int = 0
    last_row: int = 0


@dataclass(slots=True)
class ReaderState:
    """The lag of a reader by partition; that of several partitions in one frame stands under the first of them."""

    lags: dict[int, int] = field(default_factory=dict)
    lag: int = 0
    lag_max: int = 0
    last_at: int = 0
    last_row: int = 0

    def row(self, name: str, is_group: bool) -> ReaderLag:
        """What is known of it."""
        return ReaderLag(name, is_group, self.lag, self.lag_max, self.last_at, self.last_row)


def count(value: int | None) -> int:
    """A number of a line, as one that a series can count."""
    if value is None:
        return 0
    return value if 0 <= value <= MOST_COUNTED else 0 if value < 0 else MOST_COUNTED


@dataclass(slots=True)
class TopicState:
    """Counts of a topic; `sides` are what is written, then what is read."""

    key: str
    sides: tuple[TopicTraffic, TopicTraffic]
    partitions: Recent[int, PartitionState]
    clients: Recent[ClientKey, ClientState]
    readers: Recent[tuple[str, bool], ReaderState]
    first_row: int
    topic: str | None = None
    topic_id: str | None = None
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    last_at: int = 0
    last_row: int = 0

    def merge(self, other: TopicState) -> None:
        """Take over what was counted of the same topic under its id."""
        for mine, its in zip(self.sides, other.sides, strict=True):
            mine.merge(its)
        for number, partition in other.partitions.items():
            own = self.partitions.touch(number, PartitionState)
            _add(own.bytes, partition.bytes)
            own.records = [max(a, b, a + b) for a, b in zip(own.records, partition.records, strict=True)]
            if own.last_at <= partition.last_at:
                own.lag, own.last_at, own.last_row = partition.lag, partition.last_at, partition.last_row
        for who, client in other.clients.items():
            mine_too = self.clients.touch(who, ClientState)
            _add(mine_too.requests, client.requests)
            _add(mine_too.records, client.records)
            _add(mine_too.bytes, client.bytes)
            if mine_too.last_at <= client.last_at:
                mine_too.last_at, mine_too.last_row = client.last_at, client.last_row
        for key, reader in other.readers.items():
            if key not in self.readers:
                self.readers[key] = reader
        self.errors = ErrorCounts.merged((self.errors, other.errors))
        self.first_row = min(self.first_row, other.first_row)
        if self.last_at <= other.last_at:
            self.last_at, self.last_row = other.last_at, other.last_row

    def row(self, clock: RateClock, now: int, readers: Sequence[tuple[tuple[str, bool], ReaderState]]) -> TopicSummary:
        """What is known of it; `readers` begin with the one that is furthest behind."""
        return TopicSummary(
            topic=self.topic,
            topic_id=self.topic_id,
            produced=self.sides[0].row(clock, now),
            fetched=self.sides[1].row(clock, now),
            lag=readers[0][1].lag if readers else None,
            lag_max=max((reader.lag_max for _, reader in readers), default=None),
            errors=self.errors.row(),
            producers=sum(client.requests[0] > 0 for client in self.clients.values()),
            consumers=sum(client.requests[1] > 0 for client in self.clients.values()),
            partitions=len(self.partitions),
            last_at=self.last_at,
            first_row=self.first_row,
            last_row=self.last_row,
        )

    def partition_rows(self) -> list[PartitionSummary]:
        """Its partitions by number."""
        return [
            PartitionSummary(
                partition=number,
                produced_bytes=each.bytes[0],
                fetched_bytes=each.bytes[1],
                produced_records=each.records[0] if each.records[0] >= 0 else None,
                fetched_records=each.records[1] if each.records[1] >= 0 else None,
                lag=each.lag if each.lag >= 0 else None,
                last_at=each.last_at,
                last_row=each.last_row,
            )
            for number, each in sorted(self.partitions.items())
        ]

    def client_rows(self, groups: Mapping[ClientKey, str]) -> list[TopicClient]:
        """Its clients, who came last first; `groups` by host and client id."""
        return [
            TopicClient(
                client_id=who[1],
                host=who[0],
                group=groups.get(who) or None,
                produced_requests=each.requests[0],
                produced_records=each.records[0],
                produced_bytes=each.bytes[0],
                fetched_responses=each.requests[1],
                fetched_records=each.records[1],
                fetched_bytes=each.bytes[1],
                last_at=each.last_at,
                last_row=each.last_row,
            )
            for who, each in sorted(self.clients.items(), key=lambda item: -item[1].last_at)
        ]


def _add(to: list[int], more: list[int]) -> None:
    for place, value in enumerate(more):
        to[place] += value
