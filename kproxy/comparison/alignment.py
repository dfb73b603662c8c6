"""Aligns connections by client and APIs, and the exchanges of two connections by API and version."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby
from typing import Final

from kproxy.comparison.traffic import RecordedConnection, RecordedExchange

#: APIs that clients call repeatedly, by a timer or in a loop; how often depends on how long a run takes.
POLLS: Final = frozenset({
    "ConsumerGroupHeartbeat", "Fetch", "Heartbeat", "OffsetCommit", "Produce", "PushTelemetry", "ShareAcknowledge",
    "ShareFetch", "ShareGroupHeartbeat", "StreamsGroupHeartbeat",
})  # fmt: skip

#: Above this product of their lengths, sequences are aligned by position: matching them would take seconds.
_MAX_COMPARISONS: Final = 1_000_000
_MIN_RATIO: Final = 0.5  # minimum similarity of connections with different client ids

ExchangePair = tuple[RecordedExchange, RecordedExchange]


@dataclass(slots=True)
class AlignedExchanges:
    """The exchanges of two connections. The exchanges of a pair in `moved` are at different positions."""

    pairs: list[ExchangePair] = field(default_factory=list)
    moved: list[ExchangePair] = field(default_factory=list)
    only_a: list[RecordedExchange] = field(default_factory=list)
    only_b: list[RecordedExchange] = field(default_factory=list)


def align_connections(
    a: Sequence[RecordedConnection], b: Sequence[RecordedConnection]
) -> Iterator[tuple[RecordedConnection | None, RecordedConnection | None]]:
    """Pair connections with the same client id, the most similar ones first; then similar ones with other client ids.

    A client opens several connections at the same time, so their order decides only between equally similar ones.
    """
    clients = dict.fromkeys(connection.client_id for connection in (*a, *b))
    unpaired_a: list[RecordedConnection] = []
    unpaired_b: list[RecordedConnection] = []
    for client in clients:
        connections_a, connections_b = (
            [connection for connection in side if connection.client_id == client] for side in (a, b)
        )
        yield from _pair_most_similar(connections_a, connections_b, 0.0)
        unpaired_a += connections_a
        unpaired_b += connections_b
    yield from _pair_most_similar(unpaired_a, unpaired_b, _MIN_RATIO)
    yield from ((connection, None) for connection in unpaired_a)
    yield from ((None, connection) for connection in unpaired_b)


def _pair_most_similar(
    a: list[RecordedConnection], b: list[RecordedConnection], min_ratio: float
) -> Iterator[tuple[RecordedConnection, RecordedConnection]]:
    """Yield pairs of connections, the most similar ones matched first, and remove them from `a` and `b`.

    If they are too many to compare, they are paired in order, or, with a `min_ratio`, not at all.
    """
    if len(a) * len(b) > _MAX_COMPARISONS // 100:
        while a and b and not min_ratio:
            yield a.pop(0), b.pop(0)
        return
    apis_a, apis_b = ([_api_sequence(connection) for connection in side] for side in (a, b))
    ratios = sorted(
        (
            -SequenceMatcher(None, sequence_a, sequence_b, autojunk=False).ratio(),
            abs(index_a - index_b),
            index_a,
            index_b,
        )
        for index_a, sequence_a in enumerate(apis_a)
        for index_b, sequence_b in enumerate(apis_b)
    )
    pairs: list[tuple[int, int]] = []
    for ratio, _, index_a, index_b in ratios:
        if -ratio >= min_ratio and all(index_a != paired_a and index_b != paired_b for paired_a, paired_b in pairs):
            pairs.append((index_a, index_b))
    yield from ((a[index_a], b[index_b]) for index_a, index_b in sorted(pairs))
    a[:] = [connection for index_a, connection in enumerate(a) if all(index_a != paired_a for paired_a, _ in pairs)]
    b[:] = [connection for index_b, connection in enumerate(b) if all(index_b != paired_b for _, paired_b in pairs)]


def _api_sequence(connection: RecordedConnection) -> list[str]:
    """Return the APIs that a connection uses, in order and without repetitions, at most 100."""
    return [api for api, _ in groupby(exchange.api for exchange in connection.exchanges)][:100]


def align_exchanges(a: Sequence[RecordedExchange], b: Sequence[RecordedExchange]) -> AlignedExchanges:
    """Align by API and version (and topics, for Metadata), so that an extra exchange does not shift those after it.

    Exchanges that differ only in version are paired if they are at the same position.
    """
    aligned = AlignedExchanges()
    for slice_a, slice_b in _corresponding_slices(
        [_key(exchange) for exchange in a], [_key(exchange) for exchange in b]
    ):
        _pair_block(a[slice_a], b[slice_b], aligned)
    aligned.moved = pair_remaining(aligned.only_a, aligned.only_b)
    return aligned


def pair_remaining(a: list[RecordedExchange], b: list[RecordedExchange]) -> list[ExchangePair]:
    """Pair exchanges by API and version, wherever they are, and remove them from `a` and `b`."""
    return [*_pair_equal(a, b, _key), *_pair_equal(a, b, _loose_key)]


def _pair_equal(
    a: list[RecordedExchange], b: list[RecordedExchange], key: Callable[[RecordedExchange], object]
) -> list[ExchangePair]:
    by_key: dict[object, deque[RecordedExchange]] = defaultdict(deque)
    for exchange in b:
        by_key[key(exchange)].append(exchange)
    pairs = [(exchange, by_key[key(exchange)].popleft()) for exchange in a if by_key[key(exchange)]]
    paired = {id(paired_exchange) for pair in pairs for paired_exchange in pair}
    for side in (a, b):
        side[:] = [paired_exchange for paired_exchange in side if id(paired_exchange) not in paired]
    return pairs


def _key(exchange: RecordedExchange) -> tuple[object, int]:
    return _purpose(exchange), exchange.version


def _loose_key(exchange: RecordedExchange) -> tuple[object, ...]:
    """Return a key like `_key`; for FindCoordinator, with the type of the requested keys instead of the keys."""
    purpose = _purpose(exchange)
    return exchange.version, *(purpose[:2] if exchange.api == "FindCoordinator" else purpose)


def _purpose(exchange: RecordedExchange) -> tuple[object, ...]:
    """Return the API, and what is requested if several parts of a client send it: topics, coordinators, offsets."""
    body = exchange.request.body or {}
    if exchange.api == "FindCoordinator":
        return exchange.api, body.get("key_type", 0), str(body.get("coordinator_keys") or [body.get("key")])
    topics = [topic for topic in body.get("topics") or () if isinstance(topic, dict)]
    if exchange.api == "Metadata" and topics:
        return exchange.api, body.get("allow_auto_topic_creation"), *sorted(str(topic.get("name")) for topic in topics)
    if exchange.api == "ListOffsets":  # -1 and -2 are the end and the start
        times = {partition.get("timestamp") for topic in topics for partition in topic.get("partitions") or ()}
        return exchange.api, *sorted({min(time, 0) for time in times if isinstance(time, int)})
    return (exchange.api,)


def _corresponding_slices(a: Sequence[object], b: Sequence[object]) -> Iterator[tuple[slice, slice]]:
    """Yield pairs of corresponding slices, equal or not, in order."""
    if len(a) * len(b) > _MAX_COMPARISONS:
        equal_count = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        yield slice(0, equal_count), slice(0, equal_count)
        yield slice(equal_count, len(a)), slice(equal_count, len(b))
        return
    for _, i, end_i, j, end_j in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        yield slice(i, end_i), slice(j, end_j)


def _pair_block(a: Iterable[RecordedExchange], b: Iterable[RecordedExchange], aligned: AlignedExchanges) -> None:
    """Pair exchanges with the same purpose, in order; add them and the unpaired ones to `aligned`."""
    by_purpose: dict[object, deque[RecordedExchange]] = defaultdict(deque)
    for exchange in b:
        by_purpose[_purpose(exchange)].append(exchange)
    for exchange in a:
        if by_purpose[_purpose(exchange)]:
            aligned.pairs.append((exchange, by_purpose[_purpose(exchange)].popleft()))
        else:
            aligned.only_a.append(exchange)
    aligned.only_b += (unpaired_exchange for queue in by_purpose.values() for unpaired_exchange in queue)
