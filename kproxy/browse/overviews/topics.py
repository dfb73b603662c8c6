"""Topics: the records written and read, the clients involved, and the lag of readers as far as frames show it."""

from __future__ import annotations

import re

from dissectors.bounded import MAX_NAME_LENGTH, EvictionCountingDict
from dissectors.connections.addresses import ClientKey, client_of
from kproxy.browse.overviews.deliveries import Deliveries
from kproxy.browse.overviews.topic import GroupLag, PartitionSummary, ReaderLag, TopicClient, TopicSummary
from kproxy.browse.overviews.topic_counts import (
    ClientState,
    PartitionState,
    ReaderState,
    TopicState,
    TopicTraffic,
    clamp_count,
)
from kproxy.counting.rates import RateClock
from kproxy.trace.lines import CloseLine, ErrorEntry, Line, OpenLine, RequestLine, ResponseLine, TopicEntry

#: Limits: topics, topic ids with known names, connections with fetch sessions, clients with known groups.
MAX_TOPICS = 1_000
MAX_IDS = 20_000
MAX_CONNECTIONS = 10_000
MAX_CLIENTS = 10_000

#: Limit for partitions, clients and readers, each over all topics; every topic may use an equal share.
MAX_PARTS = 20_000
MIN_PARTITIONS = 8
MAX_PARTITIONS = 2_000  # of one topic
#: Maximum number of topics tracked per fetch session.
MAX_FETCHED = 32

#: The zero topic id, which means none.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"

#: Errors after which the leader has stored the records anyway: REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
_STORED = frozenset({7, 20})

_FETCHES = frozenset({"Fetch", "ShareFetch"})
_MEMBERSHIP = frozenset({"JoinGroup", "Heartbeat", "OffsetCommit", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat"})
_TOPIC_INDEX = re.compile(r"(?:topics|responses|topic_responses)\[(\d{1,9})\]")

Frame = RequestLine | ResponseLine


class TopicsOverview:
    """Collects the topics that were written, read or got an error in the lines of a trace.

    If there are more than `MAX_TOPICS`, only the most recently active are kept; `evicted` counts the others. A Fetch
    that names no topic continues its connection's fetch session (KIP-227).

    Attributes:
        now: The latest time in any line, ns.
    """

    def __init__(self) -> None:
        self.now = 0
        self._clock = RateClock()
        self._topics: EvictionCountingDict[str, TopicState] = EvictionCountingDict(MAX_TOPICS)
        self._names: EvictionCountingDict[str, str] = EvictionCountingDict(MAX_IDS)
        self._sessions: EvictionCountingDict[str, dict[str, None]] = EvictionCountingDict(MAX_CONNECTIONS)
        self._groups: EvictionCountingDict[ClientKey, str] = EvictionCountingDict(MAX_CLIENTS)
        self._deliveries = Deliveries()

    @property
    def evicted(self) -> int:
        """Number of topics that are no longer listed."""
        return self._topics.evicted

    @property
    def width(self) -> int:
        """Length of one part of `Traffic.all_time`, in ns."""
        return self._clock.width

    def observe(self, line: Line, row: int, at: int) -> None:
        """Process the next line, given its row in the index and its time in ns."""
        if at > self.now:
            self.now = at
        if isinstance(line, ResponseLine):
            if line.api in _FETCHES:
                self._count_fetch(line, row, at)
            elif line.topics and line.topics[0].topic_id is not None:
                self._record_names(line.topics)
            if line.errors and line.topics:
                self._record_errors(line, line.errors, row, at)
            if line.api == "Produce":
                self._record_stored_batches(line, row, at)
        elif isinstance(line, RequestLine):
            if line.api == "Produce":
                self._count_produce(line, row, at)
            elif line.api == "Fetch":
                self._add_to_session(line)
            elif line.group_id and line.api in _MEMBERSHIP:
                self._record_group(line)
        elif isinstance(line, OpenLine | CloseLine):
            self._sessions.pop(line.connection_id, None)

    def _count_produce(self, line: RequestLine, row: int, at: int) -> None:
        self._clock.move(at)
        client = client_of(line.client, line.client_id)
        for entry in line.topics:
            self._count(self._touch_topic(entry, row, at), 0, entry, client, row, at)

    def _count_fetch(self, line: ResponseLine, row: int, at: int) -> None:
        self._clock.move(at)
        client = client_of(line.client, line.client_id)
        for entry in line.topics:
            topic = self._touch_topic(entry, row, at)
            self._count(topic, 1, entry, client, row, at)
            group = line.group_id or self._groups.get(client)
            if entry.bytes and entry.offsets:
                requested_at = at - (line.latency_us or 0) * 1000
                self._touch_reader(topic, group, client).get_records(requested_at, at)
            if entry.lag is not None:
                self._record_lag(topic, entry, entry.lag, group, client, row, at)
            if entry.offsets or entry.ages_ms:
                self._record_times(topic, entry, line.server, self._touch_reader(topic, group, client), row, at)
        if not line.topics and not line.errors:
            for key in self._sessions.get(line.connection_id, ()):
                if (topic_of_session := self._topics.get(key)) is not None:
                    topic_of_session.sides[1].requests += 1
                    topic_of_session.sides[1].empty += 1
                    reader_key = _reader_key(line.group_id or self._groups.get(client), client)
                    # An empty response says nothing about the lag, so it does not make a reader.
                    if (reader := topic_of_session.readers.get(reader_key)) is not None:
                        reader.last_at, reader.last_row = at, row

    def _record_stored_batches(self, line: ResponseLine, row: int, at: int) -> None:
        """Record the batches that a broker has stored; consumers may have read them already."""
        for entry in line.topics:
            if not entry.offsets:
                continue
            topic, requested_at = self._touch_topic(entry, row, at), at - (line.latency_us or 0) * 1000
            self._count_unread(topic, entry, requested_at)
            for index, (number, offset) in enumerate(zip(entry.partitions, entry.offsets, strict=False)):
                if offset is not None:
                    if (partition := topic.partitions.get(number)) is not None:  # its request had records
                        sizes = entry.partition_bytes
                        partition.store(clamp_count(sizes[index]) if index < len(sizes) else 0, requested_at)
                    took_us = self._deliveries.write(
                        (line.server[:MAX_NAME_LENGTH], topic.key, number, offset), requested_at
                    )
                    if took_us is not None:
                        topic.deliveries.add(took_us)
                        self._touch_partition(topic, number, row, at).deliveries.add(took_us)

    def _count_unread(self, topic: TopicState, entry: TopicEntry, requested_at: int) -> None:
        """Add stored records to the lag of the groups that read a topic; a client without a group may have gone."""
        groups = [reader for (_, is_group), reader in topic.readers.items() if is_group and reader.read_at]
        if not groups:
            return
        records, stored_bytes = clamp_count(entry.records), sum(entry.partition_bytes)
        for number, offset, size in zip(entry.partitions, entry.offsets, entry.partition_bytes, strict=False):
            if offset is None or not stored_bytes:
                continue
            # The counts of records are per topic: partitions share them in proportion to their bytes.
            share = records if len(entry.partitions) == 1 else round(records * size / stored_bytes)
            for reader in groups:
                reader.store(number, share, requested_at)

    def _record_times(
        self, topic: TopicState, entry: TopicEntry, server: str, reader: ReaderState, row: int, at: int
    ) -> None:
        """Record how old the records of a Fetch response are, and when they were produced."""
        if entry.bytes:
            reader.age_ms = max((age for age in entry.ages_ms if age is not None), default=None)
            reader.append_time = entry.append_time
        for number, offset in zip(entry.partitions, entry.offsets, strict=False):
            if offset is None:
                continue
            took_us = self._deliveries.read((server[:MAX_NAME_LENGTH], topic.key, number, offset), at)
            if took_us is not None:
                topic.deliveries.add(took_us)
                reader.deliveries.add(took_us)
                self._touch_partition(topic, number, row, at).deliveries.add(took_us)

    def _add_to_session(self, line: RequestLine) -> None:
        """Record the topics of a Fetch request, which starts or continues a fetch session."""
        if not line.topics:
            return
        session = self._sessions.get(line.connection_id)
        if session is None:
            session = self._sessions[line.connection_id] = {}
        for entry in line.topics[:MAX_FETCHED]:
            if len(session) < MAX_FETCHED:
                session[self._key(entry)] = None

    def _record_group(self, line: RequestLine) -> None:
        """Record the group of a client; if it is in several groups, its reads belong to none."""
        client = client_of(line.client, line.client_id)
        group = (line.group_id or "")[:MAX_NAME_LENGTH]
        known_group = self._groups.get(client)
        if known_group is None:
            self._groups[client] = group
        elif known_group != group:
            self._groups[client] = ""

    def _key(self, entry: TopicEntry) -> str:
        """Return the key of a topic: its name, or its id while the name is unknown."""
        if entry.topic is not None:
            return entry.topic[:MAX_NAME_LENGTH]
        topic_id = (entry.topic_id or "")[:MAX_NAME_LENGTH]
        return self._names.get(topic_id) or "\0" + topic_id

    def _touch_topic(self, entry: TopicEntry, row: int, at: int) -> TopicState:
        key = self._key(entry)
        if entry.topic_id is not None and entry.topic is not None and self._names.get(entry.topic_id) != key:
            self._record_names((entry,))
        topic = self._topics.get(key)
        if topic is None:
            if len(self._topics) >= MAX_TOPICS:
                self._forget(self._topics.popitem(last=False)[1])
            topic = self._topics[key] = self._new_topic(key, row)
        else:
            self._topics.move_to_end(key)
        if entry.topic_id not in (None, _NO_ID):
            topic.topic_id = entry.topic_id[:MAX_NAME_LENGTH]
        topic.last_at, topic.last_row = at, row
        return topic

    def _new_topic(self, key: str, row: int) -> TopicState:
        clock = self._clock
        max_partitions = max(MIN_PARTITIONS, min(MAX_PARTITIONS, MAX_PARTS // (len(self._topics) + 1)))
        sides = (TopicTraffic(clock.series()), TopicTraffic(clock.series()))
        name = None if key[:1] == "\0" else key
        return TopicState(
            key,
            sides,
            EvictionCountingDict(max_partitions),
            EvictionCountingDict(max_partitions),
            EvictionCountingDict(MIN_PARTITIONS),
            row,
            name,
        )

    def _forget(self, topic: TopicState) -> None:
        for side in topic.sides:
            self._clock.forget(side.records_series)

    def _record_names(self, entries: list[TopicEntry] | tuple[TopicEntry, ...]) -> None:
        """Record the names of topic ids; move counts kept under an id to its name."""
        for entry in entries:
            if entry.topic is None or entry.topic_id is None:
                continue
            topic_id, name = entry.topic_id[:MAX_NAME_LENGTH], entry.topic[:MAX_NAME_LENGTH]
            if topic_id != _NO_ID and self._names.get(topic_id) != name:
                self._names[topic_id] = name
                unnamed = self._topics.pop("\0" + topic_id, None)
                if unnamed is not None:
                    self._set_name(unnamed, name)

    def _set_name(self, unnamed: TopicState, name: str) -> None:
        topic = self._topics.get(name)
        if topic is not None:
            topic.merge(unnamed)
            self._forget(unnamed)
        else:
            unnamed.key = unnamed.topic = name
            self._topics[name] = unnamed

    def _count(self, topic: TopicState, side: int, entry: TopicEntry, client_key: ClientKey, row: int, at: int) -> None:
        size, records = clamp_count(entry.bytes), clamp_count(entry.records)
        topic.sides[side].add(entry, size, records)
        client = topic.clients.get(client_key)
        if client is None:
            client = topic.clients[client_key] = ClientState()
        client.requests[side] += 1
        client.bytes[side] += size
        client.records[side] += records
        client.last_at, client.last_row = at, row
        numbers = entry.partitions
        if len(numbers) == 1:
            partition = self._touch_partition(topic, numbers[0], row, at)
            partition.count(side, size, at)
            partition.records[side] = max(partition.records[side], 0) + records
            if entry.lag is not None:
                partition.lag = entry.lag
        elif size:
            partition_sizes = zip(numbers[: topic.partitions.max_size], entry.partition_bytes, strict=False)
            for number, partition_size in partition_sizes:
                if partition_size > 0:
                    self._touch_partition(topic, number, row, at).count(side, partition_size, at)

    def _touch_partition(self, topic: TopicState, number: int, row: int, at: int) -> PartitionState:
        partition = topic.partitions.get(number)
        if partition is None:
            partition = topic.partitions[number] = PartitionState()
        partition.last_at, partition.last_row = at, row
        return partition

    def _record_lag(
        self, topic: TopicState, entry: TopicEntry, lag: int, group: str | None, client: ClientKey, row: int, at: int
    ) -> None:
        """Record the lag in a Fetch response, which is the sum over its partitions, under the first of them."""
        reader = self._touch_reader(topic, group, client)
        if not lag and not entry.bytes:
            reader.age_ms = None  # it has read everything
        reader.read(entry.partitions, lag, at, topic.partitions.max_size)
        reader.last_at, reader.last_row = at, row

    def _touch_reader(self, topic: TopicState, group: str | None, client: ClientKey) -> ReaderState:
        key = _reader_key(group, client)
        reader = topic.readers.get(key)
        if reader is None:
            reader = topic.readers[key] = ReaderState()
        return reader

    def _record_errors(self, line: ResponseLine, errors: list[ErrorEntry], row: int, at: int) -> None:
        """Record the errors of topics, which a response lists by index."""
        errors_by_topic: dict[int, list[ErrorEntry]] = {}
        for error in errors:
            if error.path.startswith("groups[") and not error.path.startswith("groups[0]"):
                continue  # `topics` has the topics of all groups, so only the first group's indexes are valid in it
            match = _TOPIC_INDEX.search(error.path)
            if match is not None and (index := int(match[1])) < len(line.topics):
                errors_by_topic.setdefault(index, []).append(error)
        if line.api == "Produce" and len(errors_by_topic) not in (0, len(line.topics)):
            return  # such a response need not list topics in the order of its request
        for index, topic_errors in errors_by_topic.items():
            entry = line.topics[index]
            topic = self._touch_topic(entry, row, at)
            topic.errors.add(topic_errors)
            if line.api == "Produce":
                self._count_as_refused(topic, entry, topic_errors, client_of(line.client, line.client_id), at)

    def _count_as_refused(
        self, topic: TopicState, entry: TopicEntry, errors: list[ErrorEntry], client_key: ClientKey, at: int
    ) -> None:
        """Count record data as refused, in proportion if only some partitions were refused.

        The entry of a response has the record data of its request, but need not list partitions in the same order.
        """
        refused = len({error.path for error in errors if error.code not in _STORED})
        if not refused:
            return
        self._clock.move(at)
        all_partitions = max(len(entry.partitions), refused)
        size, records = (clamp_count(value) * refused // all_partitions for value in (entry.bytes, entry.records))
        topic.sides[0].count_refused(size, records)
        if (client := topic.clients.get(client_key)) is not None:
            client.bytes[0] = max(0, client.bytes[0] - size)
            client.records[0] = max(0, client.records[0] - records)
        if len(entry.partitions) == 1 and (partition := topic.partitions.get(entry.partitions[0])) is not None:
            partition.bytes[0] = max(0, partition.bytes[0] - size)
            partition.records[0] = max(0, partition.records[0] - records)

    def rows(self, now: int | None = None) -> list[TopicSummary]:
        """Return the topics by name; rates are those at `now` (ns), or means over all time if it is None."""
        is_live, now = now is not None, self.now if now is None else now
        topics = sorted(self._topics.values(), key=lambda topic: (topic.topic is None, topic.key))
        return [topic.row(self._clock, now, self._current_readers(topic), is_live=is_live) for topic in topics]

    def partitions(self, topic: str) -> list[PartitionSummary]:
        """Return the partitions of a topic, given its name or its id; empty if it is not listed."""
        state = self._find(topic)
        return [] if state is None else state.partition_rows()

    def clients(self, topic: str) -> list[TopicClient]:
        """Return the clients that write to a topic or read it, most recent first."""
        state = self._find(topic)
        return [] if state is None else state.client_rows(self._groups)

    def readers(self, topic: str) -> list[ReaderLag]:
        """Return the lag of groups and of clients without a group, largest first."""
        state = self._find(topic)
        return [] if state is None else [reader.row(*key) for key, reader in self._current_readers(state)]

    def group_lags(self) -> dict[str, GroupLag]:
        """Return the lag of each group that has fetched, over its topics."""
        lags: dict[str, GroupLag] = {}
        for topic in self._topics.values():
            for (name, is_group), reader in topic.readers.items():
                if is_group:
                    topic_name = topic.topic or topic.key.removeprefix("\0")
                    lags[name] = lags.get(name, GroupLag()).plus(topic_name, reader.lag, reader.lag_max)
        return lags

    def topics_of_group(self, group: str) -> list[tuple[str, ReaderLag]]:
        """Return the topics that a group has fetched, with its lag in each, largest first."""
        readers = (
            (topic.topic or topic.key.removeprefix("\0"), topic.readers.get((group[:MAX_NAME_LENGTH], True)))
            for topic in self._topics.values()
        )
        lags = [(name, reader.row(group, is_group=True)) for name, reader in readers if reader is not None]
        return sorted(lags, key=lambda item: (-item[1].lag, item[0]))

    def topics_by_client(self) -> dict[ClientKey, list[tuple[str, TopicClient]]]:
        """Return the topics that each client, by host and client id, has written or read."""
        topics: dict[ClientKey, list[tuple[str, TopicClient]]] = {}
        for topic in self._topics.values():
            for client in topic.client_rows(self._groups):
                name = topic.topic or topic.key.removeprefix("\0")
                topics.setdefault((client.host, client.client_id), []).append((name, client))
        return topics

    def _find(self, topic: str) -> TopicState | None:
        return self._topics.get(topic) or self._topics.get("\0" + topic)

    def _current_readers(self, topic: TopicState) -> list[tuple[tuple[str, bool], ReaderState]]:
        """Return the readers, largest lag first, excluding clients whose group has since become known."""
        grouped = {f"{client_id} at {host}" for host, client_id in topic.clients if self._groups.get((host, client_id))}
        readers = [item for item in topic.readers.items() if item[0][1] or item[0][0] not in grouped]
        return sorted(readers, key=lambda item: -item[1].lag)


def _reader_key(group: str | None, client: ClientKey) -> tuple[str, bool]:
    """Return the name of a reader, and whether it is a group; else it is the client."""
    return (group[:MAX_NAME_LENGTH], True) if group else (f"{client[1]} at {client[0]}", False)
