"""A topic as rows: what is written to it and read from it, by whom, how far the readers are behind."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is written to a topic, or read from it. Rates are per second now; `minute` counts records of each second.

    `requests` are Produce requests, or Fetch responses; `empty` of these brought no record. `all_time` counts records
    of the equal parts of the trace (`Topics.width`). `compression` are codecs with how many frames had batches of them.
    """

    requests: int
    empty: int
    records: int
    bytes: int
    batches: int
    compression: tuple[tuple[str, int], ...]
    records_rate: float
    minute: tuple[int, ...]
    all_time: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """A topic; `topic` is None while only its id is known. `row`s are of the index, `last_at` in ns since the epoch.

    `lag` is what the reader who is furthest behind has yet to read, `lag_max` the most that ever was; None if no Fetch
    response told. `errors` are those that name it, in responses of any API; not of a Produce for several topics that is
    refused for some of them.
    """

    topic: str | None
    topic_id: str | None
    produced: Traffic
    fetched: Traffic
    lag: int | None
    lag_max: int | None
    errors: tuple[tuple[str, int], ...]
    producers: int
    consumers: int
    partitions: int
    last_at: int
    first_row: int
    last_row: int


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """A partition. `records` and `lag` are known where a frame has no other partition of the topic, else None."""

    partition: int
    produced_bytes: int
    fetched_bytes: int
    produced_records: int | None
    fetched_records: int | None
    lag: int | None
    last_at: int
    last_row: int


@dataclass(frozen=True, slots=True)
class TopicClient:
    """Who writes to a topic, or reads it. `group` is None if it is not known, or not one alone."""

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


@dataclass(frozen=True, slots=True)
class ReaderLag:
    """How far a group, or a client without one, is behind in a topic: records, now and at most, and when told last."""

    name: str
    is_group: bool
    lag: int
    lag_max: int
    last_at: int
    last_row: int
