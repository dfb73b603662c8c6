"""A working fleet as a proxy traces it: connections, producers and group members, each a stream of timed lines.

The lines of each stream are in order of time. The code that writes the trace merges concurrent streams.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from dissectors import schemas
from kproxy.trace.lines import CloseLine, ErrorEntry, Line, OpenLine, RepeatEntry, RequestLine, ResponseLine, TopicEntry
from kproxy.trace.timestamps import timestamp

MS = 1_000_000
SECOND = 1000 * MS

#: The time of a line in ns since the epoch, and the line.
Timed = tuple[int, Line]

_API_KEYS = {name: known.key for name in (
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup",
    "Heartbeat", "LeaveGroup", "SyncGroup", "ApiVersions", "InitProducerId",
    "AddPartitionsToTxn", "EndTxn",
) if (known := schemas.api_by_name(name))}  # fmt: skip


@dataclass(frozen=True)
class Software:
    """A client library: its name and version (KIP-511; None if it does not send them), and its API versions."""

    name: str | None
    version: str | None
    versions: dict[str, int]


JAVA = Software("apache-kafka-java", "3.9.1", {
    "Produce": 11, "Fetch": 16, "ListOffsets": 9, "Metadata": 12, "OffsetCommit": 9, "OffsetFetch": 9,
    "FindCoordinator": 6, "JoinGroup": 9, "Heartbeat": 4, "LeaveGroup": 5, "SyncGroup": 5, "ApiVersions": 4,
    "InitProducerId": 5, "AddPartitionsToTxn": 3, "EndTxn": 3,
})  # fmt: skip
LIBRDKAFKA = Software("librdkafka", "2.11.0", {
    "Produce": 10, "Fetch": 16, "ListOffsets": 7, "Metadata": 12, "OffsetCommit": 9, "OffsetFetch": 9,
    "FindCoordinator": 2, "JoinGroup": 5, "Heartbeat": 3, "LeaveGroup": 1, "SyncGroup": 3, "ApiVersions": 3,
    "InitProducerId": 4,
})  # fmt: skip


@dataclass
class Proxy:
    """A proxy that numbers its connections."""

    node: str
    numbers: Iterator[int] = field(default_factory=lambda: count(1))


class Connection:
    """A connection through a proxy; its methods return the traced lines in order."""

    def __init__(self, proxy: Proxy, host: str, server: str, client_id: str, software: Software) -> None:
        number = next(proxy.numbers)
        self.id = f"{proxy.node}-4711-{number}"
        self.server = server
        self._client_id = client_id
        self._software = software
        self._endpoints = {"client": f"{host}:{30000 + number % 30000}", "server": server}
        self._correlation_id = 0
        self._sent = self._received = self._requests = self._responses = 0

    def open(self, at: int) -> Timed:
        """Open the connection."""
        return at, OpenLine(v=1, ts=timestamp(at), connection_id=self.id, **self._endpoints)

    def exchange(
        self, api: str, at: int, latency_us: int | None = 1000, *, size: int = 120, response_size: int = 90,
        request_columns: dict[str, Any] | None = None, response_columns: dict[str, Any] | None = None,
        **common_columns: Any,
    ) -> Iterator[Timed]:  # fmt: skip
        """Yield a request and its response (none if `latency_us` is None), with columns for either or both."""
        self._correlation_id += 1
        common = {
            "v": 1, "connection_id": self.id, **self._endpoints, "api": api, "api_key": _API_KEYS[api],
            "api_version": self._software.versions[api], "correlation_id": self._correlation_id,
            "client_id": self._client_id, **common_columns,
        }  # fmt: skip
        started_at = timestamp(at)
        yield (
            at,
            RequestLine(**common | {"ts": started_at, "size": size, "offset": self._sent} | (request_columns or {})),
        )
        self._sent += size
        self._requests += 1
        if latency_us is not None:
            responded_at = at + latency_us * 1000
            response_fields = {
                "ts": timestamp(responded_at),
                "size": response_size,
                "offset": self._received,
                "request_ts": started_at,
                "latency_us": latency_us,
                "request_size": size,
            }
            yield responded_at, ResponseLine(**common | response_fields | (response_columns or {}))
            self._received += response_size
            self._responses += 1

    def hello(self, at: int) -> Iterator[Timed]:
        """Open the connection and request the API versions."""
        yield self.open(at)
        software = {"software_name": self._software.name, "software_version": self._software.version}
        yield from self.exchange("ApiVersions", at + MS, 700, size=70, response_size=470, **software)

    def close(self, at: int, by: str = "client", how: str = "fin", repeated: Iterable[RepeatEntry] = ()) -> Timed:
        """Close the connection."""
        return at, CloseLine(
            v=1, ts=timestamp(at), connection_id=self.id, **self._endpoints, by=by, how=how, request_bytes=self._sent,
            response_bytes=self._received, requests=self._requests, responses=self._responses,
            unanswered=self._requests - self._responses, repeated=list(repeated),
        )  # fmt: skip


@dataclass(frozen=True)
class Shift:
    """A period of work, in ns since the epoch; `slow` returns the factor by which a server's latency grows."""

    begin: int
    end: int
    slow: Callable[[str], float] = lambda server: 1.0


def latency(random: Random, typical_us: float, server: str, shift: Shift) -> int:
    """Return a random latency in microseconds, log-normal like that of real brokers."""
    return max(50, int(random.lognormvariate(0, 0.5) * typical_us * shift.slow(server)))


def batch_entry(topic: str, partition: int, size: int, records: int, codec: str = "lz4") -> TopicEntry:
    """Return the trace entry of a batch in a partition."""
    return TopicEntry(
        topic, None, [partition], bytes=size, records=records, batches=1, compression=[codec], partition_bytes=[size]
    )


def error(path: str, code: int, name: str) -> dict[str, Any]:
    """Return the columns that give a response this error."""
    return {"errors": [ErrorEntry(path, code, name)]}


@dataclass(frozen=True)
class Producer:
    """A client that writes batches to a topic through one of two brokers, roughly every 300 ms.

    `choose_partition` returns the partition of a batch; `response_columns_at` returns the response columns at a time.
    """

    client_id: str
    topic: str
    host: str
    servers: tuple[str, str]
    software: Software = JAVA
    partitions: int = 6
    choose_partition: Callable[[Random], int] = lambda random: random.randrange(6)
    response_columns_at: Callable[[int], dict[str, Any]] = lambda at: {}

    def lines(self, proxy: Proxy, shift: Shift, random: Random) -> Iterator[Timed]:
        """Yield the lines of the producer in a shift."""
        connections = [Connection(proxy, self.host, server, self.client_id, self.software) for server in self.servers]
        at = shift.begin + random.randrange(200 * MS)
        for connection in connections:
            yield from connection.hello(at)
            at += 5 * MS
        topic_entries = [TopicEntry(self.topic, None, list(range(self.partitions)))]
        yield from connections[0].exchange(
            "Metadata",
            at,
            900,
            request_columns={"topics": topic_entries[:0]},
            response_columns={"topics": topic_entries},
        )
        yield from connections[0].exchange("InitProducerId", at + 5 * MS, 1500)
        refreshed_at = at
        while at < shift.end - SECOND:
            at += random.randrange(100 * MS, 500 * MS)
            connection = random.choice(connections)
            size, records = random.randrange(300, 30_000), random.randrange(1, 60)
            batch = {"topics": [batch_entry(self.topic, self.choose_partition(random), size, records)]}
            latency_us, response_columns = latency(random, 2500, connection.server, shift), self.response_columns_at(at)
            yield from connection.exchange(
                "Produce",
                at,
                latency_us,
                size=size + 110,
                response_size=90,
                request_columns={"acks": -1},
                response_columns=response_columns,
                **batch,
            )
            at += latency_us * 1000 + MS
            if response_columns.get("errors") and at - refreshed_at > 5 * SECOND:
                yield from connection.exchange("Metadata", at, 900, response_columns={"topics": topic_entries})
                refreshed_at = at
                at += 5 * MS
        for connection in connections:
            yield connection.close(at + 20 * MS)


@dataclass(frozen=True)
class Group:
    """A classic consumer group whose members join at the start of a shift and leave at its end."""

    name: str
    topic: str
    hosts: tuple[str, ...]
    coordinator: str
    broker: str
    software: Software = JAVA

    def lines(self, proxy: Proxy, shift: Shift, random: Random) -> Iterator[Timed]:
        """Return the lines of all members in a shift."""
        members = [
            Member(self, proxy, host, f"{self.name}-{number}", Random(random.random()))
            for number, host in enumerate(self.hosts, 1)
        ]
        joined = shift.begin + 400 * MS
        return heapq.merge(*(member.lines(shift, joined) for member in members), key=_time_of)


class Member:
    """A member of a group, with one connection to its coordinator and one to fetch from."""

    def __init__(self, group: Group, proxy: Proxy, host: str, client_id: str, random: Random) -> None:
        self._group = group
        self._random = random
        self.id = f"{client_id}-{random.getrandbits(32):08x}-0000-4000-8000-{random.getrandbits(48):012x}"
        self.coordinator = Connection(proxy, host, group.coordinator, client_id, group.software)
        self._fetch_connection = Connection(proxy, host, group.broker, client_id, group.software)

    def lines(self, shift: Shift, joined: int) -> Iterator[Timed]:
        """Return the lines of a whole shift; generation 1 of the group starts at `joined`."""
        coordinator_lines = heapq.merge(self.join(shift.begin, joined), self._work(joined, shift), key=_time_of)
        return heapq.merge(coordinator_lines, self._fetch(joined + 50 * MS, shift), key=_time_of)

    def group_exchange(
        self, api: str, at: int, latency_us: int | None, generation: int = -1, **columns: Any
    ) -> Iterator[Timed]:
        """Yield a request about the group and its response."""
        group_columns = {"group_id": self._group.name, "generation_id": generation, "member_id": self.id}
        return self.coordinator.exchange(api, at, latency_us, **(group_columns | columns))

    def find(self, at: int) -> Iterator[Timed]:
        """Find the coordinator."""
        yield from self.coordinator.hello(at)
        yield from self.coordinator.exchange("FindCoordinator", at + 10 * MS, 800, group_id=self._group.name)

    def join(self, at: int, joined: int, generation: int = 1) -> Iterator[Timed]:
        """Find the coordinator; receive a member id and, at `joined`, an assignment."""
        yield from self.find(at + self._random.randrange(100 * MS))
        first_join_at = at + 200 * MS + self._random.randrange(50 * MS)
        error_columns = error("error_code", 79, "MEMBER_ID_REQUIRED")
        yield from self.coordinator.exchange(
            "JoinGroup", first_join_at, 700, group_id=self._group.name, generation_id=-1, member_id="",
            response_columns=error_columns | {"member_id": self.id},
        )  # fmt: skip
        rejoin_at = first_join_at + 3 * MS
        yield from self.group_exchange(
            "JoinGroup", rejoin_at, (joined - rejoin_at) // 1000, response_columns={"generation_id": generation}
        )
        yield from self.sync(joined + MS, generation)
        topics = [TopicEntry(self._group.topic, None, [0, 1, 2])]
        yield from self.group_exchange("OffsetFetch", joined + 20 * MS, 900, generation, topics=topics)

    def sync(self, at: int, generation: int) -> Iterator[Timed]:
        """Request the assignment."""
        return self.group_exchange("SyncGroup", at, 5000, generation)

    def heartbeats(
        self,
        begin: int,
        end: int,
        generation: int,
        response_columns: dict[str, Any] | None = None,
        shift: Shift | None = None,
    ) -> Iterator[Timed]:
        """Yield a heartbeat every 3 s, with `response_columns` in the responses."""
        for at in range(begin + 3 * SECOND, end, 3 * SECOND):
            latency_us = latency(self._random, 900, self.coordinator.server, shift) if shift else 900
            yield from self.group_exchange(
                "Heartbeat", at, latency_us, generation, response_columns=response_columns or {}
            )

    def leave(self, at: int, generation: int = -1) -> Iterator[Timed]:
        """Leave the group and disconnect."""
        yield from self.group_exchange("LeaveGroup", at, 900, generation)
        yield self.coordinator.close(at + 10 * MS)

    def _work(self, joined: int, shift: Shift) -> Iterator[Timed]:
        end = shift.end - SECOND
        yield from heapq.merge(
            self.heartbeats(joined, end, 1, shift=shift), self._commits(joined + 1500 * MS, end, shift), key=_time_of
        )
        yield from self.leave(shift.end - 500 * MS, 1)

    def _commits(self, begin: int, end: int, shift: Shift) -> Iterator[Timed]:
        topics = [TopicEntry(self._group.topic, None, [0, 1, 2])]
        for at in range(begin + 5 * SECOND, end, 5 * SECOND):
            latency_us = latency(self._random, 1800, self.coordinator.server, shift)
            yield from self.group_exchange("OffsetCommit", at, latency_us, 1, topics=topics)

    def _fetch(self, begin: int, shift: Shift) -> Iterator[Timed]:
        yield from self._fetch_connection.hello(begin)
        at, random = begin + 20 * MS, self._random
        while at < shift.end - 2 * SECOND:
            if random.random() < 0.35:
                latency_us, entries, size = 500_000 + random.randrange(5000), [], 30
            else:
                size, records = random.randrange(300, 60_000), random.randrange(1, 120)
                entry = batch_entry(self._group.topic, random.randrange(6), size, records)
                entry.lag = random.randrange(200)
                latency_us, entries, size = (
                    latency(random, 4000, self._fetch_connection.server, shift),
                    [entry],
                    size + 80,
                )
            yield from self._fetch_connection.exchange(
                "Fetch", at, latency_us, response_size=size, response_columns={"topics": entries}
            )
            at += latency_us * 1000 + random.randrange(20 * MS, 400 * MS)
        yield self._fetch_connection.close(at)


def _time_of(timed: Timed) -> int:
    return timed[0]
