"""The figures of requests and responses: those of an API, of a version, of a connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from dissectors.error_counts import ErrorCounts
from kproxy.counting.percentiles import Histogram
from kproxy.trace.lines import RequestLine, ResponseLine


class Durations(Protocol):
    """What counts latencies."""

    def add(self, us: int) -> None:
        """Count one duration."""


DurationsT = TypeVar("DurationsT", bound=Durations)


class FrameFigures(Generic[DurationsT]):
    """Counts frames, their bytes (with length prefix), latencies (us), and responses by error."""

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
    """Figures with percentiles of latencies."""
    return FrameFigures(Histogram())


def merge_figures(parts: Sequence[FrameFigures[Histogram]]) -> FrameFigures[Histogram]:
    """The sum of several figures; of one, itself."""
    if len(parts) == 1:
        return parts[0]
    total = FrameFigures(Histogram.merged(figures.latencies for figures in parts))
    total.errors = ErrorCounts.merged(figures.errors for figures in parts)
    for figures in parts:
        total.requests += figures.requests
        total.responses += figures.responses
        total.request_bytes += figures.request_bytes
        total.response_bytes += figures.response_bytes
    return total
