"""ProduceHabits: how a connection sends records: how many per request, when, and whether they are compressed."""

from __future__ import annotations

import sys
import zlib
from collections import Counter
from typing import Final, NamedTuple

from dissectors.connections.events import RequestReceived
from dissectors.limits import Limit
from dissectors.messages.topic_records import PartitionRecords, topic_records
from dissectors.records.batch import HEADER
from dissectors.trackers import tracker
from dissectors.trackers.in_flight import InFlight
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

REQUESTS: Final = Limit("requests", 100, "requests", "of so many Produce requests in a row on a connection", 2)
SHARE: Final = Limit("share", 90, "%", "at least this share has only one record")
BYTES: Final = Limit("bytes", 1 << 20, "bytes", "a connection has sent so many bytes of uncompressed batches", 4)
ACKS_0: Final = Limit("requests", 100, "requests", "so many Produce requests in a row have acks=0")
ACKS_1: Final = Limit("requests", 100, "requests", "a connection has sent so many Produce requests with acks=1")
ACKS_ALL: Final = Limit("requests", 1000, "requests", "a connection has sent so many Produce requests with acks=all")
SKEW: Final = Limit("share", 80, "%", "one partition gets at least this share of a topic's records", 1)
SKEW_RECORDS: Final = Limit("records", 1000, "records", "of so many or more that a connection sends in a row", 2)

#: The number of batches from which a sample is compressed, and the largest sample (bytes).
_SAMPLES, _SAMPLE_SIZE = 4, 16 << 10

_IRREGULAR = FrameFlags.IRREGULAR.value
_CODEC = 7
_NO_PARTITION: Final[tuple[str, int | None]] = ("", None)

#: A topic with fewer partitions in use is not skewed.
_MIN_PARTITIONS = 3
#: The number of windows for which records are counted before counting starts again.
_MAX_WINDOWS = 10


class ProduceWindow(NamedTuple):
    """Consecutive Produce requests of a connection.

    `singles` is the number of requests with one record, and `partition_count` the number of partitions they went to.
    `alone` is how many of them were sent while no response was awaited, and `idle_ns` is the time before them during
    which no response was awaited. `ns` is the time from the first request to the last.
    """

    requests: int
    singles: int
    partition_count: int
    ns: int
    alone: int
    idle_ns: int


class Uncompressed(NamedTuple):
    """The size of uncompressed batches, and the size of samples from them before and after compression."""

    sent: int
    before: int
    after: int


class Skew(NamedTuple):
    """A partition that got most of a topic's records: their number, the topic's total, and the partitions in use."""

    topic: str
    partition: int | None
    records: int
    total: int
    partition_count: int


@tracker(events=(RequestReceived,), apis=("Produce",), needs=(InFlight,), per="connection")
class ProduceHabits:
    """What a connection's Produce requests have in common.

    After the latest request, `window` is complete, `uncompressed` is known, or `unacknowledged` consecutive requests
    have had acks=0; otherwise these are None or 0. `sent` is the number of requests so far if the producer's settings
    are examined at this number, otherwise 0; `producer_id` is the one in its latest batch. `skew` is found in the
    latest records, and stays until the rule that reads their keys sets it to None. Such a frame is flagged as
    irregular.
    """

    def __init__(self) -> None:
        self.window: ProduceWindow | None = None
        self.uncompressed: Uncompressed | None = None
        self.unacknowledged = 0
        self._size = self._requests = self._singles = self._alone = self._since = self._idle = 0
        self._single_partitions: set[tuple[str, int | None]] = set()
        self._acks_0 = self._acks_0_limit = 0
        self._plain_bytes = self._samples = self._before = self._after = 0
        self._next_sample = 0
        self.sent, self.producer_id = 0, -1
        self.skew: Skew | None = None
        self._total = 0
        self._next_checkpoint = -1
        self._records, self._next_skew_check = 0, -1
        self._counts: dict[tuple[str, int | None], int] = {}

    def observe(self, event: RequestReceived, connection: ConnectionState) -> None:
        """Count a request and its records."""
        self.window = self.uncompressed = None
        self.unacknowledged = self.sent = 0
        count, topic_partition, counts = 0, _NO_PARTITION, self._counts
        for name, topic_id, partitions in topic_records(event.message):
            topic = name or topic_id or ""
            for records in partitions:
                batch = records.batch
                if batch is not None:
                    batch_count = batch.records_count
                    count += batch_count
                    topic_partition = topic, records.partition
                    counts[topic_partition] = counts.get(topic_partition, 0) + batch_count
                    self.producer_id = batch.producer_id
                    if not batch.attributes & _CODEC:
                        self._plain_bytes += batch.end
                        if self._plain_bytes >= self._next_sample and self._samples < _SAMPLES:
                            self._compress_sample(records, connection)
        if self._requests == 0:
            self._since, self._size = event.at, int(connection.run.limit(REQUESTS))
        self._requests += 1
        if count == 1:
            self._count_single(topic_partition, event.at, connection)
        if event.expects_response:
            self._acks_0 = 0
        else:
            self._count_acks_0(connection)
        if self._requests >= self._size:
            self._complete_window(event.at, connection)
        self._total += 1
        if self._total >= self._next_checkpoint:
            self._flag_checkpoint(connection)
        self._records += count
        if self._records >= self._next_skew_check:
            self._check_skew(connection)
        if self.skew is not None:
            connection.flags |= _IRREGULAR

    def _flag_checkpoint(self, connection: ConnectionState) -> None:
        """Flag a request if its number is one of the two limits at which the producer's settings are examined."""
        checkpoints = sorted(int(connection.run.limit(limit)) for limit in (ACKS_1, ACKS_ALL))
        if self._total in checkpoints:
            self.sent = self._total
            connection.flags |= _IRREGULAR
        self._next_checkpoint = next(
            (checkpoint for checkpoint in checkpoints if checkpoint > self._total), sys.maxsize
        )

    def _check_skew(self, connection: ConnectionState) -> None:
        """Check whether one partition got most of the records that the latest requests wrote to its topic."""
        size = int(connection.run.limit(SKEW_RECORDS))
        if self._records < size:
            self._next_skew_check = size
            return
        totals: Counter[str] = Counter()
        for (topic, _), records in self._counts.items():
            totals[topic] += records
        (topic, partition), records = max(self._counts.items(), key=lambda item: item[1], default=(_NO_PARTITION, 0))
        partition_count = sum(count[0] == topic for count in self._counts)
        total = totals[topic]
        if partition_count >= _MIN_PARTITIONS and records * 100 >= total * connection.run.limit(SKEW):
            self.skew = Skew(topic, partition, records, total, partition_count)
        elif self._records < _MAX_WINDOWS * size:  # the partitions with few records may come first, or after the others
            self._next_skew_check = self._records + size
            return
        self._counts.clear()
        self._records, self._next_skew_check = 0, size

    def _count_single(self, topic_partition: tuple[str, int | None], at: int, connection: ConnectionState) -> None:
        self._singles += 1
        self._single_partitions.add(topic_partition)
        in_flight = connection.state(InFlight)
        if len(in_flight.waiting) == 1 and in_flight.answered is not None:
            self._alone += 1
            self._idle += at - max(in_flight.answered.at, self._since)

    def _complete_window(self, at: int, connection: ConnectionState) -> None:
        if self._singles * 100 >= self._requests * connection.run.limit(SHARE):
            self.window = ProduceWindow(
                self._requests, self._singles, len(self._single_partitions), at - self._since, self._alone, self._idle
            )
            connection.flags |= _IRREGULAR
        self._requests = self._singles = self._alone = self._idle = 0
        self._single_partitions.clear()

    def _count_acks_0(self, connection: ConnectionState) -> None:
        if self._acks_0 == 0:
            self._acks_0_limit = int(connection.run.limit(ACKS_0))
        self._acks_0 += 1
        if self._acks_0 == self._acks_0_limit:
            self.unacknowledged = self._acks_0
            connection.flags |= _IRREGULAR

    def _compress_sample(self, records: PartitionRecords, connection: ConnectionState) -> None:
        """Compress part of a batch. This happens only a few times per connection."""
        limit = int(connection.run.limit(BYTES))
        if self._next_sample == 0:  # the first batch may be a small one
            self._next_sample = limit // _SAMPLES
            if self._plain_bytes < self._next_sample:
                return
        assert records.data is not None
        sample = bytes(records.data[HEADER.size : HEADER.size + _SAMPLE_SIZE])
        self._before += len(sample)
        self._after += len(zlib.compress(sample, 1))
        self._samples += 1
        self._next_sample = limit * (self._samples + 1) // _SAMPLES
        if self._plain_bytes >= limit and self._samples > 1:  # one large batch is no habit
            self._samples = _SAMPLES
            self.uncompressed = Uncompressed(self._plain_bytes, self._before, self._after)
            connection.flags |= _IRREGULAR
