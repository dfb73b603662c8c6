"""A reproducible week of a fleet, with any number of lines: ordinary traffic with planted problems.

Three proxies trace seven days, each day from 02:00 and from 13:00 (UTC). `PLANTED` in
`tests.kproxy.spark.cases` lists the problems in them; a job that reports any other problem is wrong.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from random import Random

from kproxy.browse.rows.index import time_of
from kproxy.inspection.stall_lines import StallLines
from kproxy.trace.encoding import append_line
from kproxy.trace.lines import CloseLine, Line, RequestLine, ResponseLine
from tests.kproxy.spark.cases import BROKERS, DAYS, HOURS, PLANTED, hour_of, planted_streams
from tests.kproxy.spark.fleet import JAVA, LIBRDKAFKA, SECOND, Group, Producer, Proxy, Shift, Timed, error

_NODES = ("web-1", "web-2", "web-3")
_TOPICS = ("orders", "clicks", "payments", "audit")
_SHIFTS = DAYS * len(HOURS)
#: Lines per second of a cell (a producer and a group of two members), and how long a shift may last (ns).
_CELL_RATE, _MIN_SHIFT, _LONGEST_SHIFT = 19, 20 * SECOND, 3300 * SECOND
_PLANTED_LINES = 7000


def lines(target_count: int, seed: int = 7) -> Iterator[tuple[str, Line]]:
    """Yield roughly `target_count` lines of all proxies in order of time, each with the node of its proxy."""
    yield from _with_stalls(_frames(target_count, seed))


def _with_stalls(lines: Iterable[tuple[str, Line]]) -> Iterator[tuple[str, Line]]:
    """Yield `lines`, with the stalls that each proxy detects in them."""
    stalls = {node: StallLines() for node in _NODES}
    for node, line in lines:
        yield node, line
        node_stalls, at = stalls[node], time_of(line.ts)
        stall_lines = node_stalls.tick(at=at) if at >= node_stalls.due else []
        is_frame = isinstance(line, RequestLine | ResponseLine) and line.group_id is not None
        if is_frame or isinstance(line, CloseLine):
            stall_lines += node_stalls.observe(line, at=at)
        yield from ((node, stall_line) for stall_line in stall_lines)


def _frames(target_count: int, seed: int) -> Iterator[tuple[str, Line]]:
    cells, shift_length = _cells_and_shift_length(target_count)
    proxies = [Proxy(node) for node in _NODES]
    for day in range(DAYS):
        for hour in HOURS:
            begin = round(hour_of(day, hour).timestamp()) * SECOND + 5 * SECOND
            slow = _slow_broker_factor if hour_of(day, hour) == PLANTED.slow_hour else _normal_speed
            shift = Shift(begin, begin + shift_length, slow)
            yield from _shift_lines(proxies, shift, hour_of(day, hour), cells, f"{seed}/{day}/{hour}")


def write(folder: Path, target_count: int, seed: int = 7) -> int:
    """Write the lines as the proxies would, one file per hour and proxy; return the number of lines."""
    files: dict[Path, bytearray] = {}
    count = 0

    def flush() -> None:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(data)
            data.clear()

    for node, line in lines(target_count, seed):
        hour = f"date={line.ts[:10]}/hour={line.ts[11:13]}"
        append_line(line, files.setdefault(folder / hour / f"kproxy-{node}-4711-1.jsonl", bytearray()))
        count += 1
        if count % 50_000 == 0:
            flush()
    flush()
    return count


def _cells_and_shift_length(target_count: int) -> tuple[int, int]:
    """Return the number of cells and the length of a shift (ns) that yield about this number of lines."""
    ordinary = (target_count - _PLANTED_LINES) * SECOND // _SHIFTS
    cells = max(5, -(-ordinary // (_LONGEST_SHIFT * _CELL_RATE)))
    return cells, max(ordinary // (cells * _CELL_RATE), _MIN_SHIFT)


def _normal_speed(server: str) -> float:
    return 1.0


def _slow_broker_factor(server: str) -> float:
    return 25.0 if server == PLANTED.slow_broker else 1.0


def _shift_lines(
    proxies: list[Proxy], shift: Shift, hour: datetime, cells: int, seed: str
) -> Iterator[tuple[str, Line]]:  # fmt: skip
    streams: list[tuple[Proxy, Iterator[Timed]]] = []
    for cell in range(cells):
        proxy, random = proxies[cell % len(proxies)], Random(f"{seed}/{cell}")
        streams.append((proxy, _producer(cell, shift, hour).lines(proxy, shift, random)))
        streams.append((proxy, _group(cell).lines(proxy, shift, random)))
    for number, stream in enumerate(planted_streams(shift.begin + 2 * SECOND, hour, proxies, Random(f"{seed}/wrong"))):
        streams.append((proxies[number % len(proxies)], stream))
    merged = heapq.merge(*(_with_node(proxy.node, stream) for proxy, stream in streams), key=lambda entry: entry[0])
    return ((node, line) for _, node, line in merged)


def _with_node(node: str, stream: Iterator[Timed]) -> Iterator[tuple[int, str, Line]]:
    return ((at, node, line) for at, line in stream)


def _topic(cell: int) -> str:
    return _TOPICS[cell] if cell < len(_TOPICS) else f"topic-{cell}"


def _producer(cell: int, shift: Shift, hour: datetime) -> Producer:
    topic = _topic(cell)
    options = {
        "client_id": f"{topic}-writer", "topic": topic, "host": f"10.0.{cell}.1",
        "servers": (BROKERS[cell % 3], BROKERS[(cell + 1) % 3]), "software": (JAVA, LIBRDKAFKA)[cell % 2],
    }  # fmt: skip
    if topic == PLANTED.hot_topic:
        return Producer(**options, choose_partition=lambda random: 5 if random.random() < 0.9 else random.randrange(5))
    if topic == PLANTED.error_topic and hour == PLANTED.error_hour:
        burst = range(shift.begin + 3 * SECOND, shift.begin + 10 * SECOND)
        error_columns = error("responses[0].partition_responses[0].error_code", 6, PLANTED.error_name)
        return Producer(**options, response_columns_at=lambda at: error_columns if at in burst else {})
    return Producer(**options)


def _group(cell: int) -> Group:
    topic = _topic(cell)
    hosts = (f"10.0.{cell}.2", f"10.0.{cell}.3")
    return Group(
        f"{topic}-readers", topic, hosts, BROKERS[cell % 3], BROKERS[(cell + 2) % 3], (LIBRDKAFKA, JAVA)[cell % 2]
    )
