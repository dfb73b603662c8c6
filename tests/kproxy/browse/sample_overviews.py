"""Helpers that feed lines to overviews, and lines that no real client would send."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from kproxy.browse.rows.index import RowIndex, time_of
from kproxy.trace.lines import (
    CloseLine,
    ErrorEntry,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    OpenLine,
    RepeatEntry,
    RequestLine,
    ResponseLine,
)
from kproxy.trace.timestamps import timestamp
from tests.kproxy.browse.sessions import BEGAN
from tests.kproxy.capture_results import DATA, lines_of


class Overview(Protocol):
    """An overview of lines; some overviews need the requests that a line refers to."""

    @property
    def observe(self) -> Callable[..., None]: ...


OverviewT = TypeVar("OverviewT", bound=Overview)

#: Varied captures of real clients: groups, transactions, SASL, errors, deviations and connections that never close.
CAPTURES = (
    *(DATA / "bugs" / f"{name}.pcap.gz" for name in (
        "advertised-mismatch--librdkafka", "batch-int32-length--java", "corrid-wrong--librdkafka",
        "joingroup-v2-throttle-end--kafka-go", "metadata-v0-v1fields--librdkafka", "none--java", "none--kafkajs",
    )),
    *(DATA / "pcap" / f"{name}.pcap.gz" for name in (
        "confluent-3.9.1", "java-3.9.1", "kcat-fallback-0.8-0.10-3.9.1", "sarama_v0.11.0.0-3.9.1",
        "sasl-plain-kafka-python-4.3.1", "sasl-scram512-wrongpass-kafka-python-4.3.1",
    )),
)  # fmt: skip


@functools.cache
def captured() -> tuple[Line, ...]:
    """Return the lines of all captures, one capture after another."""
    return tuple(line for path in CAPTURES for line in lines_of(path))


_indexes: weakref.WeakKeyDictionary[Any, RowIndex] = weakref.WeakKeyDictionary()


def feed(overview: OverviewT, lines: Iterable[Line]) -> OverviewT:
    """Feed lines with the rows, times and requests that a session would pass; call again to add later lines."""
    index = _indexes.setdefault(overview, RowIndex())
    for line in lines:
        at = time_of(line.ts)
        row = index.add(line, index.end, 1, at)
        overview.observe(*_supported_arguments(overview, line, row, at, index.requests))
    return overview


def _supported_arguments(overview: Overview, *arguments: object) -> tuple[object, ...]:
    """Return the arguments, except the requests if the overview does not accept them."""
    return arguments if "requests" in inspect.signature(overview.observe).parameters else arguments[:-1]


def open_line(connection_id: str = "n-1", *, at: int = BEGAN, **more: object) -> OpenLine:
    return OpenLine(v=1, ts=timestamp(at), connection_id=connection_id, client="10.0.0.1:4000", server="10.0.0.2:9092",
                    **more)  # type: ignore[arg-type]  # fmt: skip


def close_line(connection_id: str = "n-1", *, at: int = BEGAN, **more: object) -> CloseLine:
    return CloseLine(v=1, ts=timestamp(at), connection_id=connection_id, client="10.0.0.1:4000", server="10.0.0.2:9092",
                     **more)  # type: ignore[arg-type]  # fmt: skip


def make_gap(connection_id: str = "n-1", direction: str = "response", *, at: int = BEGAN) -> GapLine:
    """Return a gap in the bytes of a connection or, if its id is empty, in the lines of all connections."""
    return GapLine(v=1, ts=timestamp(at), connection_id=connection_id, direction=direction, bytes=9, reason="lost")


_texts = st.one_of(st.sampled_from(["", "a", "b", "SaslHandshake", "SaslAuthenticate", "\x1b[2J"]), st.text(max_size=3))
_numbers = st.one_of(st.integers(-2, 3), st.sampled_from([-(2**31), 2**31 - 1, 2**63, 18, 35]))
_common = {
    "v": st.just(1),
    "ts": st.one_of(st.integers(0, 5 * 10**9).map(lambda ns: timestamp(BEGAN + ns)), st.just("no time at all")),
    "connection_id": st.sampled_from(["", "n-1", "n-2", "n-3"]),
}
_endpoints = {
    "client": st.sampled_from(["10.0.0.1:1", "[::1]:2", "unix:", ""]),
    "server": st.sampled_from(["s:1", "s:2"]),
}
_finding = st.builds(
    FindingEntry, st.sampled_from(["L001", "V002"]), _texts, st.sampled_from(["error", "warning", "info", "x"]), _texts,
    path=st.none() | _texts,
)  # fmt: skip
_frame_columns = _common | _endpoints | {
    "api": st.none() | _texts,
    "api_key": st.none() | _numbers,
    "api_version": st.none() | _numbers,
    "correlation_id": st.none() | st.integers(0, 2),
    "client_id": st.none() | _texts,
    "size": _numbers,
    "offset": _numbers,
    "findings": st.lists(_finding, max_size=2),
}  # fmt: skip

_lines = st.one_of(
        st.builds(OpenLine, **_common, **_endpoints, midstream=st.booleans()),
        st.builds(RequestLine, **_frame_columns, acks=st.none() | st.integers(-1, 1),
                  software_name=st.none() | _texts, software_version=st.none() | _texts),
        st.builds(ResponseLine, **_frame_columns, request_ts=st.none() | _common["ts"], latency_us=st.none() | _numbers,
                  errors=st.lists(st.builds(ErrorEntry, _texts, _numbers, _texts), max_size=2),
                  throttle_time_ms=st.none() | _numbers),
        st.builds(FindingLine, **_common, code=st.just("C001"), name=_texts, severity=_texts, message=_texts),
        st.builds(GapLine, **_common, direction=_texts, bytes=_numbers, reason=_texts),
        st.builds(CloseLine, **_common, **_endpoints,
                  repeated=st.lists(st.builds(RepeatEntry, st.sampled_from(["L001", "Z9"]), _texts, _numbers))),
)  # fmt: skip

#: Lines of a torn or forged trace, in any order, on any rows.
inconsistent_lines = st.lists(st.tuples(_lines, st.integers(0, 5)), max_size=30)


def feed_torn(overview: OverviewT, lines: Iterable[tuple[Line, int]]) -> OverviewT:
    """Feed inconsistent lines, each with an arbitrary row."""
    for line, row in lines:
        overview.observe(*_supported_arguments(overview, line, row, time_of(line.ts), (row,)))
    return overview
