"""Counters of a topic: traffic in both directions, partitions, clients, readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dissectors.bounded import EvictionCountingDict
from dissectors.connections.addresses import ClientKey
from dissectors.error_counts import ErrorCounts, sorted_by_count
from kproxy.browse.overviews.deliveries import DeliveryTimes
from kproxy.browse.overviews.topic import PartitionSummary, ReaderLag, TopicClient, TopicSummary, Traffic
from kproxy.counting.rates import RateClock, RateSeries
from kproxy.trace.lines import TopicEntry

#: Upper limit of one line's counts for a topic, so that a damaged line cannot overflow a bucket.
MAX_COUNTED = (1 << 31) - 1

#: Maximum number of codecs that are counted separately.
MAX_CODECS = 16

#: A reader that leaves records waiting for this long (ns) before it fetches again is slow.
SLOW_AFTER_NS = 1_000_000_000


@dataclass(slots=True)
class TopicTraffic:
    """Counts the traffic of one direction: written or read."""

    records_series: RateSeries
    requests: int = 0
    empty: int = 0
    records: int = 0
    bytes: int = 0
    batches: int = 0
    refused_records: int = 0
    refused_bytes: int = 0
    compression: dict[str, int] = field(default_factory=dict)

    def add(self, entry: TopicEntry, size: int, records: int) -> None:
        """Count a frame's record data of `size` bytes."""
        self.requests += 1
        if not size:
            self.empty += 1
            return
        self.bytes += size
        self.records += records
        self.records_series.add(records)
        self.batches += entry.batches or 0
        compression = self.compression
        for codec in entry.compression:
            if codec in compression:
                compression[codec] += 1
            elif len(compression) < MAX_CODECS:
                compression[codec] = 1

    def count_refused(self, size: int, records: int) -> None:
        """Move record data that was counted as written to the refused counts, since the broker has refused it."""
        self.refused_bytes += size
        self.refused_records += records
        self.bytes = max(0, self.bytes - size)
        self.records = max(0, self.records - records)
        self.records_series.take_back(records)

    def merge(self, other: TopicTraffic) -> None:
        """Add the counts of another counter."""
        self.records_series.merge(other.records_series)
        self.requests += other.requests
        self.empty += other.empty
        self.records += other.records
        self.bytes += other.bytes
        self.batches += other.batches
        self.refused_records += other.refused_records
        self.refused_bytes += other.refused_bytes
        for codec, frames in other.compression.items():
            if codec in self.compression or len(self.compression) < MAX_CODECS:
                self.compression[codec] = self.compression.get(codec, 0) + frames

    def row(self, clock: RateClock, now: int, *, is_live: bool) -> Traffic:
        """Return the counts up to `now` (ns), with the rate at that time if `is_live`, else the mean."""
        minute = clock.minute(self.records_series, now=now)
        return Traffic(
            requests=self.requests,
            empty=self.empty,
            records=self.records,
            bytes=self.bytes,
            batches=self.batches,
            refused_records=self.refused_records,
            refused_bytes=self.refused_bytes,
            compression=sorted_by_count(self.compression),
            records_rate=clock.rate(minute, now) if is_live else clock.mean_rate(self.records),
            minute=minute,
            all_time=clock.all_time(self.records_series),
        )


@dataclass(slots=True)
class PartitionState:
    """Counters of a partition; while unknown, records are -1 and times (ns) are 0."""

    bytes: list[int] = field(default_factory=lambda: [0, 0])
    records: list[int] = field(default_factory=lambda: [-1, -1])
    lag: int = -1
    deliveries: DeliveryTimes = field(default_factory=DeliveryTimes)
    last_at: int = 0
    last_row: int = 0
    read_at: int = 0
    unread_bytes: int = 0
    unread_since: int = 0

    def count(self, side: int, size: int, at: int) -> None:
        """Count record data that was written (side 0) or read (1)."""
        self.bytes[side] += size
        if side and size:
            self.read_at, self.unread_bytes, self.unread_since = at, 0, 0

    def store(self, size: int, requested_at: int) -> None:
        """Record that the broker has stored a batch. A Fetch response after its request may already contain it."""
        if requested_at > self.read_at:
            self.unread_bytes += size
            self.unread_since = self.unread_since or requested_at


@dataclass(slots=True)
class ClientState:
    """Counters of a client; each list has the count for writes, then the count for reads."""

    requests: list[int] = field(default_factory=lambda: [0, 0])
    records: list[int] = field(default_factory=lambda: [0, 0])
    bytes: list[int] = field(default_factory=lambda: [0, 0])
    last_at: int = 0
    last_row: int = 0


@dataclass(slots=True)
class ReaderState:
    """The lag of a reader by partition: as of its last Fetch response, plus the records that were stored since.

    `lags` has the former; that of several partitions in one frame is under the first. `read_at` (ns) is the last Fetch
    response with a partition, `stored` the records that Produce requests sent after it have added. `got_records_at`
    (ns) is its last response with records, `longest_idle` the longest time (ns) from such a response to its next Fetch
    request while records waited; `slow_since` (ns) is when it first waited for longer than `SLOW_AFTER_NS`, 0 if the
    last time was shorter.
    """

    lags: dict[int, int] = field(default_factory=dict)
    read_at: dict[int, int] = field(default_factory=dict)
    stored: dict[int, int] = field(default_factory=dict)
    got_records_at: int = 0
    longest_idle: int = 0
    slow_since: int = 0
    lag: int = 0
    lag_max: int = 0
    age_ms: int | None = None
    append_time: bool = False
    deliveries: DeliveryTimes = field(default_factory=DeliveryTimes)
    last_at: int = 0
    last_row: int = 0

    def read(self, partitions: Sequence[int], lag: int, at: int, max_partitions: int) -> None:
        """Record a Fetch response, whose `lag` is the sum over its partitions."""
        lags = self.lags
        for partition in partitions or (-1,):
            if partition in self.read_at or len(self.read_at) < max_partitions:
                self.read_at[partition] = at
                self.lag += lag - lags.get(partition, 0) - self.stored.pop(partition, 0)
                lags[partition] = lag
            lag = 0
        self.lag_max = max(self.lag_max, self.lag)

    def get_records(self, requested_at: int, at: int) -> None:
        """Record a Fetch response with records; call it before `read`."""
        if self.got_records_at and self.lag > 0:
            idle = requested_at - self.got_records_at
            self.longest_idle = max(self.longest_idle, idle)
            self.slow_since = 0 if idle < SLOW_AFTER_NS else self.slow_since or self.got_records_at
        self.got_records_at = at

    def store(self, partition: int, records: int, requested_at: int) -> None:
        """Record that a broker has stored records, which an earlier Fetch response cannot have contained."""
        if self.read_at.get(partition, requested_at) < requested_at:
            self.stored[partition] = self.stored.get(partition, 0) + records
            self.lag += records
            self.lag_max = max(self.lag_max, self.lag)

    def row(self, name: str, is_group: bool) -> ReaderLag:
        """Return the lag as a row."""
        return ReaderLag(
            name=name,
            is_group=is_group,
            lag=self.lag,
            lag_max=self.lag_max,
            stored_since=sum(self.stored.values()),
            longest_idle_ns=self.longest_idle,
            slow_since=self.slow_since,
            age_ms=self.age_ms,
            append_time=self.append_time,
            delivery_us=_none_if_negative(self.deliveries.last_us),
            delivery_max_us=_none_if_negative(self.deliveries.max_us),
            last_at=self.last_at,
            last_row=self.last_row,
        )


def clamp_count(value: int | None) -> int:
    """Clamp a count from a trace line to what a series can hold; None counts as 0."""
    if value is None:
        return 0
    return value if 0 <= value <= MAX_COUNTED else 0 if value < 0 else MAX_COUNTED


@dataclass(slots=True)
class TopicState:
    """Counters of a topic; `sides` are the traffic written, then the traffic read."""

    key: str
    sides: tuple[TopicTraffic, TopicTraffic]
    partitions: EvictionCountingDict[int, PartitionState]
    clients: EvictionCountingDict[ClientKey, ClientState]
    readers: EvictionCountingDict[tuple[str, bool], ReaderState]
    first_row: int
    topic: str | None = None
    topic_id: str | None = None
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    deliveries: DeliveryTimes = field(default_factory=DeliveryTimes)
    last_at: int = 0
    last_row: int = 0

    def merge(self, other: TopicState) -> None:
        """Add the counts of the same topic that were collected under its id."""
        for own_side, other_side in zip(self.sides, other.sides, strict=True):
            own_side.merge(other_side)
        for number, partition in other.partitions.items():
            own_partition = self.partitions.touch(number, PartitionState)
            _add_counts(own_partition.bytes, partition.bytes)
            own_partition.records = [
                max(a, b, a + b) for a, b in zip(own_partition.records, partition.records, strict=True)
            ]
            own_partition.deliveries.merge(partition.deliveries)
            if own_partition.read_at <= partition.read_at:
                own_partition.read_at = partition.read_at
                own_partition.unread_bytes, own_partition.unread_since = partition.unread_bytes, partition.unread_since
            if own_partition.last_at <= partition.last_at:
                own_partition.lag, own_partition.last_at, own_partition.last_row = (
                    partition.lag,
                    partition.last_at,
                    partition.last_row,
                )
        for client_key, client in other.clients.items():
            own_client = self.clients.touch(client_key, ClientState)
            _add_counts(own_client.requests, client.requests)
            _add_counts(own_client.records, client.records)
            _add_counts(own_client.bytes, client.bytes)
            if own_client.last_at <= client.last_at:
                own_client.last_at, own_client.last_row = client.last_at, client.last_row
        for key, reader in other.readers.items():
            if key not in self.readers:
                self.readers[key] = reader
        self.deliveries.merge(other.deliveries)
        self.errors = ErrorCounts.merged((self.errors, other.errors))
        self.first_row = min(self.first_row, other.first_row)
        if self.last_at <= other.last_at:
            self.last_at, self.last_row = other.last_at, other.last_row

    def row(
        self, clock: RateClock, now: int, readers: Sequence[tuple[tuple[str, bool], ReaderState]], *, is_live: bool
    ) -> TopicSummary:
        """Return the topic as a row; `readers` must be sorted by lag, largest first."""
        return TopicSummary(
            topic=self.topic,
            topic_id=self.topic_id,
            produced=self.sides[0].row(clock, now, is_live=is_live),
            fetched=self.sides[1].row(clock, now, is_live=is_live),
            lag=readers[0][1].lag if readers else None,
            lag_max=max((reader.lag_max for _, reader in readers), default=None),
            age_ms=max((reader.age_ms for _, reader in readers if reader.age_ms is not None), default=None),
            delivery_us=_none_if_negative(self.deliveries.last_us),
            delivery_max_us=_none_if_negative(self.deliveries.max_us),
            errors=self.errors.row(),
            producers=sum(client.requests[0] > 0 for client in self.clients.values()),
            consumers=sum(client.requests[1] > 0 for client in self.clients.values()),
            partitions=len(self.partitions),
            last_at=self.last_at,
            first_row=self.first_row,
            last_row=self.last_row,
        )

    def partition_rows(self) -> list[PartitionSummary]:
        """Return the partitions by number."""
        return [
            PartitionSummary(
                partition=number,
                produced_bytes=partition.bytes[0],
                fetched_bytes=partition.bytes[1],
                produced_records=partition.records[0] if partition.records[0] >= 0 else None,
                fetched_records=partition.records[1] if partition.records[1] >= 0 else None,
                lag=partition.lag if partition.lag >= 0 else None,
                delivery_us=_none_if_negative(partition.deliveries.last_us),
                delivery_max_us=_none_if_negative(partition.deliveries.max_us),
                last_at=partition.last_at,
                last_row=partition.last_row,
                unread_bytes=partition.unread_bytes,
                unread_since=partition.unread_since or None,
            )
            for number, partition in sorted(self.partitions.items())
        ]

    def client_rows(self, groups: Mapping[ClientKey, str]) -> list[TopicClient]:
        """Return the clients, most recent first; `groups` maps a host and client id to a group."""
        return [
            TopicClient(
                client_id=client_key[1],
                host=client_key[0],
                group=groups.get(client_key) or None,
                produced_requests=client.requests[0],
                produced_records=client.records[0],
                produced_bytes=client.bytes[0],
                fetched_responses=client.requests[1],
                fetched_records=client.records[1],
                fetched_bytes=client.bytes[1],
                last_at=client.last_at,
                last_row=client.last_row,
            )
            for client_key, client in sorted(self.clients.items(), key=lambda item: -item[1].last_at)
        ]


def _add_counts(totals: list[int], counts: list[int]) -> None:
    for index, value in enumerate(counts):
        totals[index] += value


def _none_if_negative(us: int) -> int | None:
    return us if us >= 0 else None
