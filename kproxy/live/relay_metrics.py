"""RelayMetrics: the relay's metrics for Prometheus, followed by those that the inspector has sent."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from kproxy.live.inspector_watch import InspectorWatch
from kproxy.proxy.inspector_figures import FiguresReader
from kproxy.proxy.relay import Relay
from kproxy.proxy.tap import Tap
from kproxy.trace.state import TraceState
from kproxy.version import __version__


class RelayMetrics(Collector):
    """Reads the figures only on request, so that relaying does not become slower."""

    def __init__(
        self,
        relay: Relay,
        tap: Tap,
        figures: FiguresReader,
        watch: InspectorWatch,
        trace: TraceState | None = None,
    ) -> None:
        self._trace = trace
        self._relay = relay
        self._tap = tap
        self._figures = figures
        self._watch = watch
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return all figures in Prometheus' text format; those of the inspector only while one is running."""
        relay_metrics = generate_latest(self._registry)
        return relay_metrics if self._tap.lost else relay_metrics + self._figures.text

    def collect(self) -> Iterator[Metric]:
        """Yield the relay's figures for prometheus-client."""
        relay, tap, totals = self._relay, self._tap, self._relay.totals
        yield InfoMetricFamily("kproxy_build", "The version of kproxy.", {"version": __version__})
        yield GaugeMetricFamily("kproxy_connections_open", "Client connections that are open.", len(relay.clients))
        help_text = "Client connections that were accepted."
        yield CounterMetricFamily("kproxy_connections_accepted", help_text, totals.connections)
        help_text = "Client connections that were refused because the upstream was unreachable."
        yield CounterMetricFamily("kproxy_connections_refused", help_text, totals.turned_away)
        help_text = "Client connections that --sample left out of inspection."
        yield CounterMetricFamily("kproxy_connections_not_sampled", help_text, tap.unsampled_count)
        relayed = CounterMetricFamily("kproxy_relayed_bytes", "Bytes that were relayed.", labels=["direction"])
        relayed.add_metric(["request"], totals.request_bytes)
        relayed.add_metric(["response"], totals.response_bytes)
        yield relayed
        help_text = "Bytes that wait for the inspector: how far it is behind."
        yield GaugeMetricFamily("kproxy_inspector_queued_bytes", help_text, tap.queued)
        help_text = "Bytes that the inspector did not get because it could not keep up."
        yield CounterMetricFamily("kproxy_inspector_dropped_bytes", help_text, tap.dropped_bytes)
        help_text = "Frames that the inspector did not get because it could not keep up."
        yield CounterMetricFamily("kproxy_inspector_dropped_frames", help_text, tap.dropped_frames)
        help_text = "Bytes that were relayed while there was no inspector."
        yield CounterMetricFamily("kproxy_inspector_missed_bytes", help_text, tap.unseen_bytes)
        help_text = "The age of the oldest data that the inspector has not inspected yet."
        yield GaugeMetricFamily("kproxy_inspector_lag_seconds", help_text, self._watch.lag)
        is_up = not tap.lost and not self._watch.is_stuck
        yield GaugeMetricFamily("kproxy_inspector_up", "Whether the inspector runs and responds.", int(is_up))
        help_text = "Whether another inspector can be started if this one fails."
        yield GaugeMetricFamily("kproxy_inspector_restartable", help_text, int(not tap.is_last))
        help_text = "How often the inspector was restarted."
        yield CounterMetricFamily("kproxy_inspector_restarts", help_text, max(self._figures.inspectors - 1, 0))
        if self._trace is not None:
            help_text = "Whether the trace is being written: 0 without an inspector, or if its disk fails or is full."
            is_written = not tap.lost and self._trace.failure is None
            yield GaugeMetricFamily("kproxy_trace_writing", help_text, int(is_written))
            help_text = "Lines that are missing from the trace because they could not be written, or were deleted."
            yield CounterMetricFamily("kproxy_trace_lost_lines", help_text, self._trace.lost_lines)
