"""The tables of jobs, computed again in plain Python, line by line: Spark's results must be equal.

It supports the lines of `tests.kproxy.spark.sample_fleet`, where frames have a client id and at most one topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from kproxy.trace.lines import CloseLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.trace.timestamps import nanoseconds

Key = tuple[Any, ...]
#: A table: the key columns of each row, mapped to its other columns.
Table = dict[Key, Key]

_HOUR_US, _MINUTE_US, _SHORT_US = 3_600_000_000, 60_000_000, 10_000_000
#: Errors that occur in the normal operation of groups.
_ROUTINE = ("MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS")
_RECORDS = {"Produce": RequestLine, "Fetch": ResponseLine}


def percentile(ordered: Sequence[int], quantile: float) -> float:
    """Return a percentile, interpolated linearly between the two nearest values."""
    position = (len(ordered) - 1) * quantile
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


class Oracle:
    """Compute tables from lines; the docstring of each table lists its key columns, then its other columns."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.lines = self.requests = self.refused = self.wire_bytes = 0
        self.first_us, self.last_us = 1 << 62, 0
        self._latencies: dict[Key, list[int]] = defaultdict(list)
        self._sizes: dict[Key, tuple[list[int], list[int], list[int]]] = defaultdict(lambda: ([], [], []))
        self._errors: dict[Key, list[int]] = defaultdict(list)
        self._responses: dict[Key, int] = defaultdict(int)
        self._waits: dict[Key, list[int]] = defaultdict(list)
        self._partitions: dict[Key, list[int]] = defaultdict(lambda: [0, 0])
        self._known_partitions: dict[str, set[int]] = defaultdict(set)
        self._batches: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self._fetches: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self._uses: dict[Key, int] = defaultdict(int)
        self._connections: dict[str, dict[str, Any]] = defaultdict(dict)
        self._answers: list[tuple[int, str, str, int, tuple[str, ...]]] = []
        self._frames: list[tuple[int, int, bool]] = []
        for line in lines:
            self.lines += 1
            self._add(line, nanoseconds_of(line.ts) // 1000)

    def _add(self, line: Line, at: int) -> None:
        self.first_us, self.last_us = min(self.first_us, at), max(self.last_us, at)
        if isinstance(line, OpenLine):
            self._connections[line.connection_id] |= {"opened": at, "client": line.client, "broker": line.server}
        elif isinstance(line, CloseLine):
            self._connections[line.connection_id] |= {"closed": at, "unanswered": line.unanswered, "by": line.by}
        elif isinstance(line, RequestLine | ResponseLine):
            self._add_frame(line, at)
        if isinstance(line, RequestLine):
            self._connections[line.connection_id]["client_id"] = line.client_id
            self.requests += 1
            self._uses[line.client_id, line.api, line.api_version] += 1
        elif isinstance(line, ResponseLine):
            self._add_response(line, at)

    def _add_frame(self, line: RequestLine | ResponseLine, at: int) -> None:
        self.wire_bytes += line.size
        self._frames.append((at, line.size, isinstance(line, RequestLine)))
        carries_records = isinstance(line, _RECORDS.get(line.api or "", ResponseLine))
        sizes = [
            (("api", line.api), line.size),
            (("client", line.client_id), line.size),
            (("broker", line.server), line.size),
        ]
        for topic in line.topics:
            sizes.append((("topic", topic.topic), topic.bytes if carries_records else None))
            self._known_partitions[topic.topic or ""].update(topic.partitions)
            for partition, size in zip(topic.partitions, topic.partition_bytes, strict=False):
                if carries_records:
                    self._partitions[topic.topic, partition][isinstance(line, ResponseLine)] += size
        for key, size in sizes:
            view_sizes = self._sizes[key]
            view_sizes[isinstance(line, ResponseLine)].append(size if size is not None else -1)
            view_sizes[2].append(at)
        if isinstance(line, RequestLine) and line.api == "Produce":
            for topic in line.topics:
                sums = self._batches[line.client_id, topic.topic]
                for index, value in enumerate((1, topic.batches, topic.records, topic.bytes)):
                    sums[index] += value or 0

    def _add_response(self, line: ResponseLine, at: int) -> None:
        assert line.latency_us is not None
        names = tuple({entry.name: None for entry in line.errors})
        refusals = tuple(name for name in names if name not in _ROUTINE)
        self.refused += bool(refusals)
        self._answers.append((at, line.api or "", line.server, line.latency_us, refusals))
        broker_and_topics = [("broker", line.server), *(("topic", topic.topic) for topic in line.topics)]
        for by, value in (
            ("api", None),
            ("version", str(line.api_version)),
            ("client", line.client_id),
            *broker_and_topics,
        ):
            self._latencies[by, line.api, value].append(line.latency_us)
        for by, value in (("api", line.api), ("client", line.client_id), *broker_and_topics):
            self._responses[by, value] += 1
            for entry in line.errors:
                if by != "topic" or "[" in entry.path:
                    self._errors[by, value, entry.name, entry.code].append(at)
        for since in (None, at // _HOUR_US * _HOUR_US):
            self._waits[line.client_id, line.server, since].append((line.throttle_time_ms or 0) * 1000)
        if line.api == "Fetch":
            sums = self._fetches[line.client_id or ""]
            fetched_bytes = sum(topic.bytes or 0 for topic in line.topics)
            records = sum(topic.records or 0 for topic in line.topics)
            for index, value in enumerate((1, not fetched_bytes, fetched_bytes, records)):
                sums[index] += value

    def latency(self) -> Table:
        """by, api, value: responses, p50_us, p90_us, p99_us, p999_us, max_us."""
        table: Table = {}
        for key, latencies in self._latencies.items():
            latencies.sort()
            table[key] = (
                len(latencies),
                *(percentile(latencies, quantile) for quantile in (0.5, 0.9, 0.99, 0.999)),
                latencies[-1],
            )
        return table

    def throughput(self) -> Table:
        """by, value: requests, responses, the total, p50, p99 and largest size of each; first_at, last_at."""
        return {
            key: (
                len(request_sizes),
                len(response_sizes),
                *_size_columns(request_sizes),
                *_size_columns(response_sizes),
                min(times),
                max(times),
            )
            for key, (request_sizes, response_sizes, times) in self._sizes.items()
        }

    def errors(self) -> Table:
        """by, value, error, code: responses, share, first_at, last_at."""
        return {
            key: (len(times), len(times) / self._responses[key[:2]], min(times), max(times))
            for key, times in self._errors.items()
        }

    def throttling(self) -> Table:
        """client, broker, since: responses, throttled, total_throttle_us, max_throttle_us."""
        return {
            key: (len(waits), sum(map(bool, waits)), sum(waits), max(waits))
            for key, waits in self._waits.items()
            if any(waits)
        }

    def partitions(self) -> Table:
        """topic, partition: written_bytes, written_share, written_skew, read_bytes, read_share, read_skew."""
        totals: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for (topic, _), sizes in self._partitions.items():
            totals[topic] = [total + size for total, size in zip(totals[topic], (*sizes, 1), strict=True)]
        table: Table = {}
        for topic, (written, read, _) in totals.items():
            for partition in self._known_partitions[topic]:
                sizes = self._partitions[topic, partition]
                row: list[float | None] = []
                for size, total in zip(sizes, (written, read), strict=True):
                    share = size / total if total else None
                    row += [size, share, None if share is None else share * len(self._known_partitions[topic])]
                table[topic, partition] = tuple(row)
        return table

    def batches(self) -> Table:
        """client, topic: requests, batches, records, total_bytes."""
        return {key: tuple(sums) for key, sums in self._batches.items()}

    def fetches(self) -> Table:
        """client: fetches, empty, brought_bytes, records."""
        return {(client,): tuple(sums) for client, sums in self._fetches.items()}

    def uses(self) -> Table:
        """client, api, api_version: requests."""
        return {key: (count,) for key, count in self._uses.items()}

    def connections(self) -> Table:
        """client, broker: connections, opened, peak_a_minute, short, unanswered, p50_life_us."""
        grouped: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        for connection in self._connections.values():
            grouped[connection["client_id"], connection["client"].rpartition(":")[0], connection["broker"]].append(
                connection
            )
        table: Table = {}
        for key, client_connections in grouped.items():
            lifetimes_us = sorted(connection["closed"] - connection["opened"] for connection in client_connections)
            minutes = [connection["opened"] // _MINUTE_US for connection in client_connections]
            peak = max(minutes.count(minute) for minute in set(minutes))
            short = sum(lifetime_us < _SHORT_US for lifetime_us in lifetimes_us)
            unanswered = sum(connection["unanswered"] for connection in client_connections)
            table[key] = (
                len(client_connections),
                len(client_connections),
                peak,
                short,
                unanswered,
                percentile(lifetimes_us, 0.5),
            )
        return table

    def heat(self, step_us: int, waiting: Sequence[str]) -> dict[str, Table]:
        """Return the number of responses by API, bucket (us) and latency row; "" stands for APIs not in `waiting`."""
        counts_by_api: dict[str, dict[Key, int]] = defaultdict(lambda: defaultdict(int))
        for at, api, _, latency_us, _ in self._answers:
            row = next(row for row in range(40) if latency_us < 10 ** ((row + 1) / 4))
            for name in (api, "") if api not in waiting else (api,):
                counts_by_api[name][at // step_us * step_us, row] += 1
        return {name: {key: (count,) for key, count in counts.items()} for name, counts in counts_by_api.items()}

    def brokers(self, step_us: int, waiting: Sequence[str]) -> Table:
        """broker, bucket: responses, their p99 in us; responses of the `waiting` APIs are omitted."""
        latencies: dict[Key, list[int]] = defaultdict(list)
        for at, api, broker, latency_us, _ in self._answers:
            if api not in waiting:
                latencies[broker, at // step_us * step_us].append(latency_us)
        return {
            key: (len(bucket_latencies), percentile(sorted(bucket_latencies), 0.99))
            for key, bucket_latencies in latencies.items()
        }

    def refusals(self, step_us: int) -> Table:
        """error, bucket: responses."""
        counts_by_key: dict[Key, int] = defaultdict(int)
        for at, _, _, _, names in self._answers:
            for name in names:
                counts_by_key[name, at // step_us * step_us] += 1
        return {key: (count,) for key, count in counts_by_key.items()}

    def traffic(self, step_us: int) -> Table:
        """bucket: requests, bytes."""
        sums_by_bucket: dict[Key, list[int]] = defaultdict(lambda: [0, 0])
        for at, size, is_request in self._frames:
            sums_by_bucket[(at // step_us * step_us,)][0] += is_request
            sums_by_bucket[(at // step_us * step_us,)][1] += size
        return {key: tuple(sums) for key, sums in sums_by_bucket.items()}


def _size_columns(sizes: list[int]) -> Key:
    known_sizes = sorted(size for size in sizes if size >= 0)
    if not known_sizes:
        return (0, None, None, None)
    return (sum(known_sizes), percentile(known_sizes, 0.5), percentile(known_sizes, 0.99), known_sizes[-1])


_MINUTES: dict[str, int] = {}


def nanoseconds_of(ts: str) -> int:
    """Do the same as `kproxy.trace.timestamps.nanoseconds`, but faster, for millions of lines."""
    minute = ts[:16]
    if (begin := _MINUTES.get(minute)) is None:
        begin = _MINUTES[minute] = nanoseconds(f"{minute}:00.000000Z")
    return begin + int(ts[17:19]) * 1_000_000_000 + int(ts[20:26]) * 1000
