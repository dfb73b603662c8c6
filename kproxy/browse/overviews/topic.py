"""A topic as rows: traffic, clients, partitions, and the lag of its readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic written to a topic, or read from it.

    `records_rate` is per second (see `TopicsOverview.rows`); `minute` counts records in each second.

    `requests` are Produce requests, or Fetch responses; `empty` ones had no records. `records` and `bytes` exclude
    refused ones. `batches` and `compression` (frames by codec) cover all requests. `all_time` counts records in equal
    parts of the trace (`TopicsOverview.width`).
    """

    requests: int
    empty: int
    records: int
    bytes: int
    batches: int
    refused_records: int
    refused_bytes: int
    compression: tuple[tuple[str, int], ...]
    records_rate: float
    minute: tuple[int, ...]
    all_time: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic; `topic` is None while only its id is known. Rows are in the index, `last_at` is ns since the epoch.

    `lag` is that of the reader furthest behind (see `ReaderLag`), in records, `lag_max` the highest ever; None if no
    Fetch response had one. `age_ms` is the age of the oldest record in the last responses to its readers,
    `delivery_us` the last time from a Produce request to a Fetch response with its batch, `delivery_max_us` the
    longest. `errors` are errors of this topic in responses of any API, except a Produce for several topics that failed
    for some.
    """

    topic: str | None
    topic_id: str | None
    produced: Traffic
    fetched: Traffic
    lag: int | None
    lag_max: int | None
    age_ms: int | None
    delivery_us: int | None
    delivery_max_us: int | None
    errors: tuple[tuple[str, int], ...]
    producers: int
    consumers: int
    partitions: int
    last_at: int
    first_row: int
    last_row: int


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """A partition. `records` and `lag` are known only from frames with no other partition of the topic, else None.

    `unread_bytes` were stored since a Fetch response last had records of the partition; the first of them at
    `unread_since` (ns).
    """

    partition: int
    produced_bytes: int
    fetched_bytes: int
    produced_records: int | None
    fetched_records: int | None
    lag: int | None
    delivery_us: int | None
    delivery_max_us: int | None
    last_at: int
    last_row: int
    unread_bytes: int = 0
    unread_since: int | None = None


@dataclass(frozen=True, slots=True)
class TopicClient:
    """A client that writes to a topic or reads it. `group` is None if unknown or if there are several."""

    client_id: str
    host: str
    group: str | None
    produced_requests: int
    produced_records: int
    produced_bytes: int
    fetched_responses: int
    fetched_records: int
    fetched_bytes: int
    last_at: int
    last_row: int


class GroupLag(NamedTuple):
    """The last lag of a group over its topics, in records; the highest it ever had in one of them, and which."""

    lag: int = 0
    topic: str = ""
    lag_max: int = -1

    def plus(self, topic: str, lag: int, lag_max: int) -> GroupLag:
        """Return the lag including that of another topic."""
        highest = (topic, lag_max) if lag_max > self.lag_max else (self.topic, self.lag_max)
        return GroupLag(self.lag + lag, *highest)


@dataclass(frozen=True, slots=True)
class ReaderLag:
    """The lag of a group, or of a client without one, in records: the last value, the highest, and when it was seen.

    It is what the last Fetch responses left to read, for a group plus `stored_since`: the records that were stored
    since, as far as seen. `longest_idle_ns` is the longest time from a response with records to the next request while
    records waited, and it was slow from `slow_since` (ns, 0: it was not) on.
    `age_ms` is the age of the oldest record in its last response, by the broker's clock with `append_time`, else by the
    producer's; None once it has read everything. `delivery_us` and `delivery_max_us` are as in `TopicSummary`.
    """

    name: str
    is_group: bool
    lag: int
    lag_max: int
    stored_since: int
    longest_idle_ns: int
    slow_since: int
    age_ms: int | None
    append_time: bool
    delivery_us: int | None
    delivery_max_us: int | None
    last_at: int
    last_row: int
