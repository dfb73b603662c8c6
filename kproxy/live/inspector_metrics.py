"""What the inspector's process counts for Prometheus, from the lines of the trace.

Labels are bounded: APIs, error names and rule codes are those that kproxy knows, and everything else is ``unknown``.
Only this module and `kproxy.live.relay_metrics` import prometheus-client, and only `--http` imports them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from dissectors import schemas
from dissectors.rules import rules
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, RequestLine, ResponseLine

UNKNOWN: Final = "unknown"
#: Upper bounds of the latency histogram, in seconds; long polls take up to 30 s by default.
BUCKETS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
_BUCKETS_US: Final = tuple(round(bound * 1e6) for bound in BUCKETS_S)
_BOUNDS: Final = (*map(str, BUCKETS_S), "+Inf")


class _Latencies:
    """How many latencies lie in each bucket, and their sum in microseconds."""

    __slots__ = ("counts", "sum_us")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.sum_us = 0

    def add(self, us: int) -> None:
        self.counts[bisect_left(_BUCKETS_US, us)] += 1
        self.sum_us += us


class InspectorMetrics(Collector):
    """Counts lines in plain numbers; prometheus-client sees them only when they are read, once a second.

    Args:
        in_flight: Gives the number of requests that are not answered.
    """

    def __init__(self, in_flight: Callable[[], int]) -> None:
        self._in_flight = in_flight
        self._apis = {each.name for each in schemas.apis()}
        self._severities = {each.code: str(each.severity) for each in rules()}
        self._frames: Counter[tuple[str, str]] = Counter()  # by API and direction, as is:
        self._bytes: Counter[tuple[str, str]] = Counter()
        self._latencies: dict[str, _Latencies] = {}
        self._errors: Counter[tuple[str, str]] = Counter()  # by API and error name
        self._findings: Counter[tuple[str, str]] = Counter()  # by code and severity
        self._gap_bytes = 0
        self._gap_frames = 0
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)

    def add(self, line: Line) -> None:
        """Count a line of the trace."""
        if isinstance(line, RequestLine):
            self._add_frame(line, "request")
        elif isinstance(line, ResponseLine):
            self._add_response(line, self._add_frame(line, "response"))
        elif isinstance(line, FindingLine):
            self._findings[line.code, line.severity] += 1
        elif isinstance(line, GapLine):
            self._gap_bytes += line.bytes
            self._gap_frames += line.frames
        elif isinstance(line, CloseLine):
            for repeat in line.repeated:
                self._findings[repeat.code, self._severities.get(repeat.code, UNKNOWN)] += repeat.count

    def _add_frame(self, line: RequestLine | ResponseLine, direction: str) -> str:
        api = line.api if line.api in self._apis else UNKNOWN
        assert api is not None
        self._frames[api, direction] += 1
        self._bytes[api, direction] += line.size
        for finding in line.findings:
            self._findings[finding.code, finding.severity] += 1
        return api

    def _add_response(self, line: ResponseLine, api: str) -> None:
        if line.latency_us is not None:
            if (latencies := self._latencies.get(api)) is None:
                latencies = self._latencies[api] = _Latencies()
            latencies.add(max(line.latency_us, 0))  # the clock may have been set back
        for code in {error.code for error in line.errors}:
            self._errors[api, schemas.error_name(code) or UNKNOWN] += 1

    def collect(self) -> Iterator[Metric]:
        """All figures, for prometheus-client."""
        by_api = ("api", "direction")
        yield _counter("kproxy_frames", "Kafka frames that were inspected.", by_api, self._frames)
        yield _counter("kproxy_frame_bytes", "Bytes of these frames.", by_api, self._bytes)
        durations = HistogramMetricFamily(
            "kproxy_request_duration_seconds", "Time from a request to its response.", labels=["api"]
        )
        for api, latencies in self._latencies.items():
            total = 0
            buckets = []
            for bound, count in zip(_BOUNDS, latencies.counts, strict=True):
                total += count
                buckets.append((bound, float(total)))
            durations.add_metric([api], buckets, latencies.sum_us / 1e6)
        yield durations
        text = "Responses with this Kafka error, once for each response."
        yield _counter("kproxy_response_errors", text, ("api", "error"), self._errors)
        text = "Findings of the rules, including repeats, which are added when their connection closes."
        yield _counter("kproxy_findings", text, ("code", "severity"), self._findings)
        yield GaugeMetricFamily("kproxy_requests_in_flight", "Requests without a response.", self._in_flight())
        yield CounterMetricFamily("kproxy_gap_bytes", "Relayed bytes that were not inspected.", self._gap_bytes)
        yield CounterMetricFamily("kproxy_gap_frames", "Relayed frames that were not inspected.", self._gap_frames)


def _counter(name: str, text: str, labels: tuple[str, str], values: Counter[tuple[str, str]]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
