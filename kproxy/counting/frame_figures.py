"""Figures of requests and responses, for an API, a version or a connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from dissectors.error_counts import ErrorCounts
from kproxy.counting.percentiles import Histogram
from kproxy.trace.lines import RequestLine, ResponseLine


class Durations(Protocol):
    """A counter of durations."""

    def add(self, us: int) -> None:
        """Count one duration."""


DurationsT = TypeVar("DurationsT", bound=Durations)


class FrameFigures(Generic[DurationsT]):
    """Counts frames, their bytes (with length prefixes), latencies (us), and responses by error."""

    __slots__ = ("errors", "latencies", "request_bytes", "requests", "response_bytes", "responses")

    def __init__(self, latencies: DurationsT) -> None:
        self.requests = self.responses = 0
        self.request_bytes = self.response_bytes = 0
        self.latencies = latencies
        self.errors = ErrorCounts()

    def add_request(self, line: RequestLine) -> None:
        """Count a request."""
        self.requests += 1
        self.request_bytes += line.size

    def add_response(self, line: ResponseLine) -> None:
        """Count a response."""
        self.responses += 1
        self.response_bytes += line.size
        if line.latency_us is not None:
            self.latencies.add(line.latency_us)
        if line.errors:
            self.errors.add(line.errors)


def new_figures() -> FrameFigures[Histogram]:
    """Return empty figures with percentiles of latencies."""
    return FrameFigures(Histogram())


def merge_figures(all_figures: Sequence[FrameFigures[Histogram]]) -> FrameFigures[Histogram]:
    """Return the sum of several figures; a single one is returned as it is."""
    if len(all_figures) == 1:
        return all_figures[0]
    total = FrameFigures(Histogram.merged(figures.latencies for figures in all_figures))
    total.errors = ErrorCounts.merged(figures.errors for figures in all_figures)
    for figures in all_figures:
        total.requests += figures.requests
        total.responses += figures.responses
        total.request_bytes += figures.request_bytes
        total.response_bytes += figures.response_bytes
    return total
