"""Topics over time: bytes of records produced (including refused ones) and fetched, and lag by partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, Final

from dissectors.bounded import MAX_NAME_LENGTH
from kproxy.browse.pictures.over_time import MIN_WIDTH, completed_at, rows_in_view
from kproxy.browse.rows.index import RowState
from kproxy.browse.rows.partial_parse import parse_partial
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.sources.source import SourcePhase
from kproxy.trace.formatting import safe
from kproxy.trace.lines import RequestLine, ResponseLine, TopicEntry

#: The direction of a frame's records, by API key: Produce, Fetch, ShareFetch.
_DIRECTIONS: Final = {0: "produced", 1: "fetched", 78: "fetched"}
#: How many of the busiest topics, and of the partitions with the highest lag, get a series of their own.
_MAX_TOPICS: Final = 6
_MAX_PARTITIONS: Final = 8
#: Rows processed between two yields, in a few milliseconds: if only times are read, and if lines are parsed.
_STEP: Final = 4_096
_STEP_OF_LINES: Final = 64

#: The filter field (``topic`` or ``topic_id``), and the topic's name or, if that is unknown, its id.
TopicKey = tuple[str, str]


def topics_over_time(
    session: BrowseSession, view: SessionView, part_count: int
) -> Generator[None, None, dict[str, Any]]:
    """Count the rows of a view in steps; each exchange with records takes 8 us of CPU, because its lines are parsed.

    Args:
        session: The session.
        view: The view whose rows are counted.
        part_count: Number of parts to divide the time into, as in `over_time`.

    Returns:
        ``from``, ``width``, ``parts`` as in `over_time`; ``series`` by ``produced`` and ``fetched``: ``names``, pairs
        of a filter field and its value, ``values`` (bytes of records), ``others``. ``lag`` has the same keys; the third
        item of each name is the partition, -1 if frames only show the sum of several; its values are the highest lag
        in each part, in records, null if no response shows it. ``busy`` as in `over_time`.
    """
    index, visible = session.index, view.visible
    rows = rows_in_view(index, visible)
    start, end = 1 << 62, 0
    for number, row in enumerate(rows):
        if not number % _STEP:
            yield
        entry = row - index.first
        if entry >= 0 and index.state[entry] != RowState.EVENT:
            at = completed_at(index, entry)
            start, end = min(start, at), max(end, at)
    start = min(start, end)
    width = max(MIN_WIDTH, -(-(end - start + 1) // part_count))
    sizes: dict[str, dict[TopicKey, Counter[int]]] = {"produced": {}, "fetched": {}}
    lags: dict[tuple[str, str, int], dict[int, int]] = {}
    number = 0
    for row in rows:
        entry = row - index.first
        if entry < 0 or index.state[entry] == RowState.EVENT:
            continue
        direction = _DIRECTIONS.get(index.api[entry])
        if direction is None:
            continue
        if not (number := number + 1) % _STEP_OF_LINES:
            yield
            if (entry := row - index.first) < 0:
                continue
        part = min(max(completed_at(index, entry) - start, 0) // width, part_count - 1)
        for topic in _topics(session, row):
            key = _topic_key(topic)
            if topic.bytes:
                sizes[direction].setdefault(key, Counter())[part] += topic.bytes
            if topic.lag is not None:
                lag = lags.setdefault((*key, topic.partitions[0] if len(topic.partitions) == 1 else -1), {})
                lag[part] = max(lag.get(part, 0), topic.lag)
    totals = {name: {key: topic.total() for key, topic in topics.items()} for name, topics in sizes.items()}
    return {
        "from": start,
        "width": width,
        "parts": part_count,
        "series": {
            name: _series_json(topics, _highest_keys(totals[name], _MAX_TOPICS), part_count, 0)
            for name, topics in sizes.items()
        },
        "lag": _series_json(
            lags, _highest_keys({key: max(lag.values()) for key, lag in lags.items()}, _MAX_PARTITIONS), part_count
        ),
        "busy": visible.is_behind or session.source.phase is SourcePhase.READING,
    }


def _topics(session: BrowseSession, row: int) -> Sequence[TopicEntry]:
    """Return the topics of a row's response, which repeats the request's byte counts, or else of its request."""
    for raw in reversed(session.raw(row)):
        line = parse_partial(raw)
        if isinstance(line, RequestLine | ResponseLine) and line.topics:
            return line.topics
    return ()


def _topic_key(topic: TopicEntry) -> TopicKey:
    if topic.topic is not None:
        return "topic", topic.topic[:MAX_NAME_LENGTH]
    return "topic_id", (topic.topic_id or "")[:MAX_NAME_LENGTH]


def _highest_keys(values: dict[Any, int], count: int) -> list[Any]:
    return sorted(values, key=lambda key: (-values[key], key))[:count]


def _series_json(
    values: dict[Any, Any], keys: Sequence[tuple[Any, ...]], part_count: int, default: int | None = None
) -> dict[str, Any]:
    return {
        "names": [[key[0], safe(key[1]), *key[2:]] for key in keys],
        "values": [[values[key].get(part, default) for part in range(part_count)] for key in keys],
        "others": len(values) - len(keys),
    }
