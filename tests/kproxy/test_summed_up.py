"""Summaries in trace lines of real traffic are compared with later requests of the clients and with tshark."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from kproxy.trace.lines import Detail, RequestLine, ResponseLine
from tests.kproxy.capture_results import DATA, lines_of

PCAP = DATA / "pcap"


def frames_of(name: str, detail: Detail = Detail.SUMMARY) -> Iterator[RequestLine | ResponseLine]:
    for line in lines_of(PCAP / f"{name}.pcap.gz", detail=detail):
        if isinstance(line, RequestLine | ResponseLine):
            yield line


class ConsumerPosition:
    """The position of the consumer on one connection, according to its requests."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, int], int] = {}
        self.pending: list[tuple[int, list[tuple[tuple[str, int], int]]]] = []

    def read_request(self, body: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
        """Yield the lag of each earlier response, as reported in its line and as implied by this request."""
        for topic in body["topics"]:
            for partition in topic["partitions"]:
                self.offsets[_topic(topic), partition["partition"]] = partition["fetch_offset"]
        # A request without topics continues the fetch session unchanged or ends it.
        for lag, end_offsets in self.pending if body["topics"] else ():
            yield lag, sum(max(end - self.offsets[topic_partition], 0) for topic_partition, end in end_offsets)
        self.pending.clear()

    def read_response(self, line: ResponseLine, body: Mapping[str, Any]) -> None:
        for entry, topic in zip(line.topics, body["responses"], strict=True):
            end_offsets = [
                ((_topic(topic), row["partition_index"]), row["high_watermark"]) for row in topic["partitions"]
            ]
            if entry.lag is not None:
                self.pending.append((entry.lag, end_offsets))


def _topic(row: Mapping[str, Any]) -> str:
    name: str = row.get("topic") or row["topic_id"]
    return name


@pytest.mark.parametrize(
    ("name", "response_count", "positive_lag_count"),
    [
        ("aiokafka-4.3.1", 20, 0),
        ("confluent-3.9.1", 40, 0),
        ("kcat-fallback-0.8-0.10-3.9.1", 10, 3),  # message sets, the last of which is truncated
        ("sarama_v0.11.0.0-3.9.1", 17, 0),
        ("three-brokers-java-4.3.1", 91, 0),  # fetch sessions
    ],
)
def test_lag_matches_the_next_fetch_offset(name: str, response_count: int, positive_lag_count: int) -> None:
    consumers: dict[str, ConsumerPosition] = {}
    lags: list[int] = []
    for line in frames_of(name, Detail.FULL):
        if line.api != "Fetch" or line.body is None:
            continue
        consumer = consumers.setdefault(line.connection_id, ConsumerPosition())
        if isinstance(line, ResponseLine):
            if line.body["responses"]:
                consumer.read_response(line, line.body)
            continue
        for reported_lag, actual_lag in consumer.read_request(line.body):
            assert reported_lag == actual_lag, line
            lags.append(reported_lag)
    assert (len(lags), sum(lag > 0 for lag in lags)) == (response_count, positive_lag_count)


class TsharkCounts(NamedTuple):
    """The values that tshark reads in a capture, and their counts.

    tshark -r FILE -Y kafka -T fields -e kafka.api_key -e kafka.generation_id, -e kafka.client_software_name
    -e kafka.client_software_version, and -e kafka.batch_codec, which is a list for each frame.
    """

    generations: Mapping[tuple[str, int], int]
    software: Mapping[tuple[str, str], int]
    batches: Mapping[tuple[int, tuple[str, ...]], int]


TSHARK = {
    "kcat-4.3.1": TsharkCounts(
        {("JoinGroup", -1): 3, ("JoinGroup", 1): 1, ("JoinGroup", 3): 1, ("JoinGroup", 4): 2, ("JoinGroup", 5): 1,
         ("SyncGroup", 1): 1, ("SyncGroup", 3): 1, ("SyncGroup", 4): 2, ("SyncGroup", 5): 1, ("OffsetCommit", 1): 1,
         ("Heartbeat", 1): 1, ("Heartbeat", 3): 7, ("Heartbeat", 4): 24, ("Heartbeat", 5): 6},
        {("librdkafka", "2.0.2"): 22},
        {(11, ("none", "gzip", "snappy", "lz4", "zstd")): 2, (1, ("none",)): 7, (1, ("gzip",)): 1,
         (1, ("snappy",)): 1, (1, ("lz4",)): 1, (1, ("zstd",)): 1},
    ),
    "sarama_v0.11.0.0-3.9.1": TsharkCounts(
        {("JoinGroup", 1): 1, ("JoinGroup", 2): 2, ("JoinGroup", 3): 1, ("OffsetCommit", 1): 4,
         ("SyncGroup", 1): 1, ("SyncGroup", 2): 2, ("SyncGroup", 3): 1,
         ("Heartbeat", 1): 2, ("Heartbeat", 2): 7, ("Heartbeat", 3): 1},
        {("sarama", "v1.61.1"): 26},
        {(37, ("none", "gzip", "snappy", "lz4")): 1, (5, ("none",)): 1, (3, ("none",)): 1, (1, ("none",)): 16,
         (3, ("gzip",)): 1, (2, ("gzip",)): 1, (1, ("gzip",)): 1, (3, ("snappy",)): 1, (2, ("snappy",)): 1,
         (1, ("snappy",)): 1, (3, ("lz4",)): 1, (1, ("lz4",)): 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(TSHARK))
def test_generations_software_and_batches_match_tshark(name: str) -> None:
    generations: Counter[tuple[str | None, int]] = Counter()
    software: Counter[tuple[str, str | None]] = Counter()
    batches: Counter[tuple[int, tuple[str, ...]]] = Counter()
    for line in frames_of(name):
        is_request = isinstance(line, RequestLine)
        if line.generation_id is not None and is_request == (
            line.api != "JoinGroup"
        ):  # of JoinGroup, only the response has one
            generations[line.api, line.generation_id] += 1
        if is_request and line.software_name is not None:
            software[line.software_name, line.software_version] += 1
        if is_request == (line.api == "Produce") and (count := sum(entry.batches or 0 for entry in line.topics)):
            codecs = itertools.chain.from_iterable(entry.compression for entry in line.topics)
            batches[count, tuple(dict.fromkeys(codecs))] += 1
    assert (generations, software, batches) == TSHARK[name]
