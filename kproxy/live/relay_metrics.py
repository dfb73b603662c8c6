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
        text = "Client connections that were accepted."
        yield CounterMetricFamily("kproxy_connections_accepted", text, totals.connections)
        text = "Client connections that were refused because the upstream was unreachable."
        yield CounterMetricFamily("kproxy_connections_refused", text, totals.turned_away)
        text = "Client connections that --sample left out of inspection."
        yield CounterMetricFamily("kproxy_connections_not_sampled", text, tap.left_out)
        relayed = CounterMetricFamily("kproxy_relayed_bytes", "Bytes that were relayed.", labels=["direction"])
        relayed.add_metric(["request"], totals.request_bytes)
        relayed.add_metric(["response"], totals.response_bytes)
        yield relayed
        text = "Bytes that wait for the inspector: how far it is behind."
        yield GaugeMetricFamily("kproxy_inspector_queued_bytes", text, tap.queued)
        text = "Bytes that the inspector did not get because it could not keep up."
        yield CounterMetricFamily("kproxy_inspector_dropped_bytes", text, tap.dropped_bytes)
        text = "Frames that the inspector did not get because it could not keep up."
        yield CounterMetricFamily("kproxy_inspector_dropped_frames", text, tap.dropped_frames)
        text = "Bytes that were relayed while there was no inspector."
        yield CounterMetricFamily("kproxy_inspector_missed_bytes", text, tap.unseen_bytes)
        text = "The age of the oldest data that the inspector has not inspected yet."
        yield GaugeMetricFamily("kproxy_inspector_lag_seconds", text, self._watch.lag)
        is_up = not tap.lost and not self._watch.is_stuck
        yield GaugeMetricFamily("kproxy_inspector_up", "Whether the inspector runs and responds.", int(is_up))
        text = "Whether another inspector can be started if this one fails."
        yield GaugeMetricFamily("kproxy_inspector_restartable", text, int(not tap.is_last))
        text = "How often the inspector was restarted."
        yield CounterMetricFamily("kproxy_inspector_restarts", text, max(self._figures.inspectors - 1, 0))
        if self._trace is not None:
            text = "Whether the trace is being written: 0 without an inspector, or if its disk fails or is full."
            is_written = not tap.lost and self._trace.failure is None
            yield GaugeMetricFamily("kproxy_trace_writing", text, int(is_written))
            text = "Lines that are missing from the trace because they could not be written, or were deleted."
            yield CounterMetricFamily("kproxy_trace_lost_lines", text, self._trace.lost_lines)
