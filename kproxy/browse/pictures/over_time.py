"""Latency, errors and throughput over time: counted in equal parts of the time that a view's rows span."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Sequence
from math import ceil
from typing import Any, Final

from dissectors.messages.message import api_name
from dissectors.trackers.allowed_waits import LONG_POLLS
from kproxy.browse.rows.index import RowIndex, RowState
from kproxy.browse.rows.visible_rows import VisibleRows
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.sources.source import SourcePhase
from kproxy.trace.formatting import safe

#: The lowest latency of each level, in us; it doubles every two levels.
BOUNDS: Final = tuple(ceil(2 ** (level / 2)) for level in range(76))
#: How many of the busiest clients, and of the busiest brokers, get a series of their own.
_MAX_NAMES: Final = 6
#: Rows counted between two yields, in a few milliseconds.
_STEP: Final = 4_096
#: Minimum length of a part in us: rates over less say nothing.
MIN_WIDTH: Final = 1_000
#: Sorts after every latency, which are negated.
_NO_LATENCY: Final = (1, 0, 0)


def over_time(
    session: BrowseSession, view: SessionView, api: str, part_count: int
) -> Generator[None, None, dict[str, Any]]:
    """Count the rows of a view in steps; a million rows take 2 s of CPU, and 31 MB for their latencies.

    An exchange counts at the time when it was complete, which is what a filter on ``ts`` compares; a request without
    a response counts at its own time.

    Args:
        session: The session.
        view: The view whose rows are counted.
        api: The API whose latencies are counted; all APIs if empty.
        part_count: Number of parts to divide the time into.

    Returns:
        ``from`` (us since the epoch), ``width`` of a part (us), ``parts``; ``apis`` with their row counts;
        ``bounds`` (us) of the latency levels; ``heat``: ``[part, level, count]``; per part ``percentiles`` (p50, p99,
        highest, in us; null if there are none), ``errors``, ``unanswered``; ``highest``: the time of the response,
        latency and API of the highest latency, then those of the APIs that may wait by design (`LONG_POLLS`), null if
        there is none; ``series`` by client and broker: ``names``,
        ``values`` (bytes) of each, and how many ``others`` there are; ``busy`` while rows are still read or filtered.
    """
    index, visible = session.index, view.visible
    rows = rows_in_view(index, visible)
    apis: Counter[int] = Counter()
    by_client: Counter[int] = Counter()
    by_broker: Counter[str] = Counter()
    start, end = 1 << 62, 0
    for number, row in enumerate(rows):
        if not number % _STEP:
            yield
        entry = row - index.first
        if entry < 0 or index.state[entry] == RowState.EVENT:
            continue
        us = completed_at(index, entry)
        start, end = min(start, us), max(end, us)
        apis[index.api[entry]] += 1
        size = index.size[entry]
        by_client[index.client[entry]] += size
        by_broker[index.servers.get(index.connection[entry], "")] += size
    start = start if apis else 0
    width = max(MIN_WIDTH, -(-(end - start + 1) // part_count))
    clients = _rank({index.clients[number]: count for number, count in by_client.items()})
    brokers = _rank(by_broker)
    client_bytes = {name: [0] * part_count for name, _ in clients[:_MAX_NAMES]}
    broker_bytes = {name: [0] * part_count for name, _ in brokers[:_MAX_NAMES]}
    errors, unanswered = [0] * part_count, [0] * part_count
    latencies: list[list[int]] = [[] for _ in range(part_count)]
    heat: Counter[tuple[int, int]] = Counter()
    highest: dict[bool, tuple[int, int, int]] = {}  # negative latency, completion, API key; by whether the API may wait
    keys = {key for key in apis if not api or _api_label(key) == api}
    long_polls = {key for key in apis if _api_label(key) in LONG_POLLS}
    for number, row in enumerate(rows):
        if not number % _STEP:
            yield
        entry = row - index.first
        if entry < 0 or (state := index.state[entry]) == RowState.EVENT:
            continue
        # A response may have arrived since the first pass.
        us = completed_at(index, entry)
        part = min(max(us - start, 0) // width, part_count - 1)
        errors[part] += index.errors[entry]
        unanswered[part] += state in (RowState.UNANSWERED, RowState.WAITING)
        size = index.size[entry]
        if (values := client_bytes.get(index.clients[index.client[entry]])) is not None:
            values[part] += size
        if (values := broker_bytes.get(index.servers.get(index.connection[entry], ""))) is not None:
            values[part] += size
        latency = index.latency[entry]
        if latency >= 0 and index.api[entry] in keys:
            latencies[part].append(latency)
            may_wait = index.api[entry] in long_polls
            if (known := highest.get(may_wait)) is None or latency >= -known[0]:
                highest[may_wait] = min(known or _NO_LATENCY, (-latency, us, index.api[entry]), key=_by_name)
            heat[part, max(0, bisect_right(BOUNDS, latency) - 1)] += 1
    percentiles: list[list[int] | None] = []
    for part_latencies in latencies:
        yield
        percentiles.append(_percentiles(part_latencies))
    return {
        "from": start,
        "width": width,
        "parts": part_count,
        "apis": _rank(_count_by_name(apis)),
        "bounds": BOUNDS,
        "heat": [[part, level, count] for (part, level), count in sorted(heat.items())],
        "percentiles": percentiles,
        "highest": [_highest_json(highest.get(may_wait)) for may_wait in (False, True)],
        "errors": errors,
        "unanswered": unanswered,
        "series": {
            "client": _series_json(client_bytes, len(clients)),
            "broker": _series_json(broker_bytes, len(brokers)),
        },
        "busy": visible.is_behind or session.source.phase is SourcePhase.READING,
    }


def rows_in_view(index: RowIndex, visible: VisibleRows) -> Sequence[int]:
    """Return the rows of a view."""
    if not visible.is_narrowed:
        return range(index.first, index.end)
    return [visible[position] for position in range(len(visible))]


def completed_at(index: RowIndex, entry: int) -> int:
    """Return when an exchange was complete, in us since the epoch; a request without a response has its own time."""
    return index.at[entry] // 1000 + max(index.latency[entry], 0)


def _api_label(api_key: int) -> str:
    return api_name(api_key) if api_key >= 0 else "?"


def _highest_json(highest: tuple[int, int, int] | None) -> list[Any] | None:
    return None if highest is None else [highest[1], -highest[0], _api_label(highest[2])]


def _by_name(candidate: tuple[int, int, int]) -> tuple[int, int, str]:
    latency, part, api_key = candidate
    return latency, part, _api_label(api_key)


def _count_by_name(apis: Counter[int]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for key, count in apis.items():
        counts[_api_label(key)] += count
    return counts


def _rank(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def _percentiles(latencies: list[int]) -> list[int] | None:
    """Return p50, p99 and maximum; they use the nearest rank, so that each is a measured latency."""
    if not latencies:
        return None
    latencies.sort()
    return [latencies[ceil(len(latencies) / 2) - 1], latencies[-(-99 * len(latencies) // 100) - 1], latencies[-1]]


def _series_json(values: dict[str, list[int]], count: int) -> dict[str, Any]:
    return {"names": [safe(name) for name in values], "values": list(values.values()), "others": count - len(values)}
