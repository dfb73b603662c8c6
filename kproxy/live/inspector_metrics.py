"""Counts the lines of the trace for Prometheus, in the inspector's process.

Labels are bounded: APIs, error names and rule codes are those that kproxy knows, and everything else is ``unknown``.
Only this module and `kproxy.live.relay_metrics` import prometheus-client, and only `--http` imports them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from dissectors import schemas
from dissectors.rules import rules
from kproxy.counting.fixed_buckets import FixedBuckets
from kproxy.counting.frame_figures import FrameFigures
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, RequestLine, ResponseLine

UNKNOWN: Final = "unknown"
#: Upper bounds of the latency histogram, in seconds; long polls take up to 30 s by default.
BUCKETS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
_BUCKETS_US: Final = tuple(round(bound * 1e6) for bound in BUCKETS_S)
_BOUNDS: Final = (*map(str, BUCKETS_S), "+Inf")


class InspectorMetrics(Collector):
    """Counts lines in plain numbers, which prometheus-client reads only once a second.

    Args:
        in_flight: Returns the number of unanswered requests.
        lost_lines: Returns the number of lines missing from the trace because they could not be written.
        worker_restarts: Returns how often one of several inspectors was restarted.
        ongoing: Returns the number of requests and groups that are currently stalled, by code and severity.
    """

    def __init__(
        self,
        in_flight: Callable[[], int],
        lost_lines: Callable[[], int] = lambda: 0,
        worker_restarts: Callable[[], int] = lambda: 0,
        ongoing: Callable[[], Mapping[tuple[str, str], int]] = dict,
    ) -> None:
        self._count_ongoing = ongoing
        self._ongoing: dict[tuple[str, str], int] = {}  # 0 for findings that no longer last
        self._in_flight = in_flight
        self._worker_restarts = worker_restarts
        self._lost_lines = lost_lines
        self._names = {api.name for api in schemas.apis()}
        self._errors = {error.name for error in schemas.errors()}
        self._severities = {rule.code: str(rule.severity) for rule in rules()}
        self._apis: dict[str, FrameFigures[FixedBuckets]] = {}
        self._findings: Counter[tuple[str, str]] = Counter()  # by code and severity
        self._gap_bytes = 0
        self._gap_frames = 0
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        return generate_latest(self._registry)

    def add(self, line: Line) -> None:
        """Count a line of the trace."""
        if isinstance(line, RequestLine):
            self._count_findings(line).add_request(line)
        elif isinstance(line, ResponseLine):
            self._count_findings(line).add_response(line)
        elif isinstance(line, FindingLine):
            self._findings[line.code, line.severity] += 1
        elif isinstance(line, GapLine):
            self._gap_bytes += line.bytes
            self._gap_frames += line.frames
        elif isinstance(line, CloseLine):
            for repeat in line.repeated:
                self._findings[repeat.code, self._severities.get(repeat.code, UNKNOWN)] += repeat.count

    def _count_findings(self, line: RequestLine | ResponseLine) -> FrameFigures[FixedBuckets]:
        """Count the findings of a frame; return the figures of its API."""
        for finding in line.findings:
            self._findings[finding.code, finding.severity] += 1
        name = line.api if line.api in self._names else UNKNOWN
        return self._apis.get(name) or self._apis.setdefault(name, FrameFigures(FixedBuckets(_BUCKETS_US)))

    def _by_known_error(self, errors: Iterable[tuple[str, int]]) -> Counter[str]:
        """Return the number of responses by error name; names that a peer made up count as unknown."""
        counts: Counter[str] = Counter()
        for name, count in errors:
            counts[name if name in self._errors else UNKNOWN] += count
        return counts

    def collect(self) -> Iterator[Metric]:
        """Yield all figures for prometheus-client."""
        by_api = ("api", "direction")
        frames = CounterMetricFamily("kproxy_frames", "Kafka frames that were inspected.", labels=by_api)
        size = CounterMetricFamily("kproxy_frame_bytes", "Bytes of these frames.", labels=by_api)
        help_text = "Time from a request to its response."
        durations = HistogramMetricFamily("kproxy_request_duration_seconds", help_text, labels=["api"])
        help_text = "Responses with this Kafka error, once for each response."
        errors = CounterMetricFamily("kproxy_response_errors", help_text, labels=["api", "error"])
        for name, figures in self._apis.items():
            for direction, count, total in (
                ("request", figures.requests, figures.request_bytes),
                ("response", figures.responses, figures.response_bytes),
            ):
                frames.add_metric([name, direction], count)
                size.add_metric([name, direction], total)
            buckets = zip(_BOUNDS, map(float, accumulate(figures.latencies.counts)), strict=True)
            durations.add_metric([name], list(buckets), figures.latencies.sum / 1e6)
            for error, count in self._by_known_error(figures.errors.row()).items():
                errors.add_metric([name, error], count)
        yield from (frames, size, durations, errors)
        help_text = "Findings of the rules, including repeats, which are added when their connection closes."
        findings = CounterMetricFamily("kproxy_findings", help_text, labels=["code", "severity"])
        for code_and_severity, count in self._findings.items():
            findings.add_metric(code_and_severity, count)
        yield findings
        help_text = "Requests and groups that are stopped now, by what was found about them."
        ongoing = GaugeMetricFamily("kproxy_findings_lasting", help_text, labels=["code", "severity"])
        self._ongoing = {**dict.fromkeys(self._ongoing, 0), **self._count_ongoing()}
        for code_and_severity, count in self._ongoing.items():
            ongoing.add_metric(code_and_severity, count)
        yield ongoing
        yield GaugeMetricFamily("kproxy_requests_in_flight", "Requests without a response.", self._in_flight())
        help_text = "How often one of several inspectors (--inspectors) was restarted."
        yield CounterMetricFamily("kproxy_inspector_worker_restarts", help_text, self._worker_restarts())
        yield CounterMetricFamily("kproxy_gap_bytes", "Relayed bytes that were not inspected.", self._gap_bytes)
        help_text = "Relayed frames that were not inspected, and lines of the trace that could not be written."
        yield CounterMetricFamily("kproxy_gap_frames", help_text, self._gap_frames + self._lost_lines())
