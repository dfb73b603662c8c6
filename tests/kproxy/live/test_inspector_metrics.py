"""Metrics of the inspector, parsed with the parser of prometheus-client."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from dissectors import schemas
from kproxy.live.inspector_metrics import BUCKETS_S, UNKNOWN, InspectorMetrics
from kproxy.trace.lines import (
    CloseLine,
    ErrorEntry,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    RepeatEntry,
    RequestLine,
    ResponseLine,
)

COMMON: dict[str, Any] = {"v": 1, "ts": "2026-01-01T00:00:00.000000Z", "connection_id": "a-1-1"}
FRAME: dict[str, Any] = {**COMMON, "client": "10.0.0.1:4", "server": "10.0.0.2:9092", "size": 100, "offset": 0}


def samples(*lines: Line, in_flight: int = 0) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the metric values by name and labels after these lines."""
    metrics = InspectorMetrics(lambda: in_flight)
    for line in lines:
        metrics.add(line)
    families = list(text_string_to_metric_families(metrics.text().decode()))
    assert all(family.documentation and family.type != "unknown" for family in families)
    return {
        (sample.name, tuple(sample.labels.values())): sample.value for family in families for sample in family.samples
    }


def test_counts_frames_and_bytes_by_api_and_direction() -> None:
    values = samples(
        RequestLine(**FRAME, api="Fetch"), RequestLine(**FRAME, api="Fetch"), ResponseLine(**FRAME, api="Fetch")
    )
    assert values["kproxy_frames_total", ("Fetch", "request")] == 2
    assert values["kproxy_frames_total", ("Fetch", "response")] == 1
    assert values["kproxy_frame_bytes_total", ("Fetch", "request")] == 200


def test_latencies_become_a_cumulative_histogram() -> None:
    latencies = [1, 100, 101, 2_000, 59_999_999, 60_000_001, -5]
    values = samples(*(ResponseLine(**FRAME, api="Produce", latency_us=us) for us in latencies))
    name = "kproxy_request_duration_seconds"
    buckets = [values[f"{name}_bucket", ("Produce", str(bound))] for bound in BUCKETS_S]
    assert all(previous <= following for previous, following in pairwise(buckets))
    assert (buckets[0], buckets[1], buckets[-1]) == (3, 4, 6)  # bounds are inclusive
    assert values[f"{name}_bucket", ("Produce", "+Inf")] == values[f"{name}_count", ("Produce",)] == len(latencies)
    assert values[f"{name}_sum", ("Produce",)] == sum(max(us, 0) for us in latencies) / 1e6


def test_counts_an_error_once_per_response() -> None:
    errors = [ErrorEntry(f"responses[{index}].error_code", 6, "NOT_LEADER_OR_FOLLOWER") for index in range(9)]
    values = samples(ResponseLine(**FRAME, api="Produce", errors=errors), ResponseLine(**FRAME, api="Produce"))
    assert values["kproxy_response_errors_total", ("Produce", "NOT_LEADER_OR_FOLLOWER")] == 1


def test_ongoing_findings_are_0_after_they_end() -> None:
    ongoing = {("G001", "error"): 2}
    metrics = InspectorMetrics(lambda: 0, ongoing=lambda: ongoing)
    sample = 'kproxy_findings_lasting{code="G001",severity="error"}'
    assert f"{sample} 2.0" in metrics.text().decode()
    ongoing.clear()
    assert f"{sample} 0.0" in metrics.text().decode()


def test_counts_findings_of_frames_and_connections_with_repeats() -> None:
    finding = FindingEntry("C001", "unmatched-correlation-id", "error", "text")
    endpoints: dict[str, Any] = {"client": "a", "server": "b"}
    values = samples(
        RequestLine(**FRAME, api="Fetch", findings=[finding]),
        FindingLine(**COMMON, code="S013", name="join-without-sync", severity="warning", message="text"),
        CloseLine(**COMMON, **endpoints, repeated=[RepeatEntry("C001", "unmatched-correlation-id", 4)]),
    )
    assert values["kproxy_findings_total", ("C001", "error")] == 5
    assert values["kproxy_findings_total", ("S013", "warning")] == 1


def test_counts_gaps_and_requests_in_flight() -> None:
    gap = GapLine(**COMMON, direction="request", bytes=500, frames=3, reason="x")
    values = samples(gap, gap, in_flight=7)
    assert values["kproxy_gap_bytes_total", ()] == 1000
    assert values["kproxy_gap_frames_total", ()] == 6
    assert values["kproxy_requests_in_flight", ()] == 7


def test_unknown_names_from_peers_do_not_become_labels() -> None:
    lines: list[Line] = [RequestLine(**FRAME, api=f"API {key}", client_id=f"client-{key}") for key in range(1000)]
    lines += [ResponseLine(**FRAME)]
    lines += [
        ResponseLine(**FRAME, api="Fetch", errors=[ErrorEntry("error_code", code, f"UNKNOWN_ERROR_{code}")])
        for code in range(1000, 2000)
    ]
    values = samples(*lines)
    known_labels = {api.name for api in schemas.apis()} | {UNKNOWN}
    assert {labels[0] for name, labels in values if name == "kproxy_frames_total"} == {UNKNOWN, "Fetch"} <= known_labels
    assert values["kproxy_frames_total", (UNKNOWN, "request")] == 1000
    assert values["kproxy_response_errors_total", ("Fetch", UNKNOWN)] == 1000
